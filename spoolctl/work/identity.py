"""Whether a worker lives: ALIVE, DEAD or UNKNOWN, by two witnesses (SPEC 6). UNKNOWN never acts.

The lock: a worker holds LOCK_EX on `workers/<instance>.lock`; the kernel lets it go with the process,
in whatever namespace that lived. The process: boot id, pid namespace, pid and start time. Either
witness saying alive wins. Never by command text, never by age.
"""

import fcntl
import os
import stat

from .. import clock
from ..paths import Spool, raw
from . import proc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..store.db import Row

YOUNG = 60.0  # seconds in which a file without a row is left alone
ALIVE, DEAD, UNKNOWN = "ALIVE", "DEAD", "UNKNOWN"


def lock_path(spool: Spool, instance: int) -> str:
    return f"{spool.workers}/{instance}.lock"


class WorkerLock:
    """This process's own lock: made under a temporary name before the registration, named by the
    instance after its commit, so that a row never lacks its lock."""

    def __init__(self, spool: Spool) -> None:
        self.spool = spool
        self._make()
        info = os.fstat(self.fd)
        if info.st_nlink == 0:  # it took a minute to get here, and was swept away
            os.close(self.fd)
            self._make()
            info = os.fstat(self.fd)
        self.dev, self.ino = info.st_dev, info.st_ino

    def _make(self) -> None:
        self.path = f"{self.spool.workers}/.{os.getpid()}-{os.urandom(4).hex()}.lock"
        self.fd = os.open(raw(self.path), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def name(self, instance: int) -> None:
        final = lock_path(self.spool, instance)
        os.rename(raw(self.path), raw(final))
        self.path = final

    def beat(self) -> None:
        """The heartbeat: a sign for people, which decides nothing."""
        os.utime(self.fd)

    def release(self, remove: bool) -> None:
        """Let it go; `remove` its file too, when there is no row left that names it."""
        if remove:
            try:
                os.unlink(raw(self.path))
            except OSError:
                pass
        os.close(self.fd)


def myself() -> "Row":
    """What identifies this process, as columns of `workers`."""
    me = proc.stat(os.getpid())
    return {
        "pid": os.getpid(),
        "pid_start": me.start if me else None,
        "boot_id": proc.boot_id(),
        "pid_ns": proc.pid_namespace(),
        "host": os.uname().nodename,
    }


def _same(a: object, b: object) -> bool:
    """Null never equals null: what could not be read proves nothing."""
    return a is not None and a == b


def lock_witness(spool: Spool, worker: "Row") -> "str | None":
    """ALIVE when the worker's lock is held, DEAD when it can be taken, None when there is no such file."""
    path = raw(lock_path(spool, int(worker["instance"])))
    wanted = (worker["lock_dev"], worker["lock_ino"])
    for candidate in (path, None):
        name = candidate or _unnamed(spool, worker)
        if name is None:
            return None
        held = try_shared(name, wanted)
        if held is not None:
            return ALIVE if held else DEAD
    return None


def _unnamed(spool: Spool, worker: "Row") -> "bytes | None":
    """The lock under its temporary name, where a worker left it that died between its commit and the rename.

    The inode alone does not tell: once its file is gone, it is given to the next that starts.
    """
    prefix = b".%d-" % worker["pid"]
    try:
        with os.scandir(raw(spool.workers)) as entries:
            for entry in entries:
                if entry.name.startswith(prefix) and entry.inode() == worker["lock_ino"]:
                    return entry.path
    except OSError:
        pass
    return None


def remove_lock(spool: Spool, instance: int, worker: "Row | None") -> None:
    """Remove the lock of a dead worker, under whichever name it had when it died."""
    path = raw(lock_path(spool, instance))
    if worker is not None and not os.path.lexists(path):
        # Removed by another one, or never renamed. Both numbers may be a starting worker's by now.
        found = _unnamed(spool, worker)
        if found is None or not abandoned(found):
            return
        path = found
    try:
        os.unlink(path)
    except OSError:
        pass


def abandoned(path: bytes) -> bool:
    """Whether a lock file without a row is nobody's: free, and too old to be still on its way to one."""
    try:
        return clock.now() - os.stat(path).st_mtime >= YOUNG and try_shared(path) is False
    except OSError:
        return False


def try_shared(path: bytes, wanted: "tuple[object, object] | None" = None) -> "bool | None":
    """True when somebody holds an exclusive flock on the file, False when nobody does, None when it
    is missing, unreadable or another file. Uses LOCK_SH so that lookers never look like owners."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe there would block us
    except OSError:
        return None
    try:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode) or (wanted and (info.st_dev, info.st_ino) != wanted):
            return None
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    except OSError:
        return None
    finally:
        os.close(fd)


def process_witness(pid: int, start: "int | None") -> str:
    """Judge a pid of this boot and namespace by its start time."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return DEAD
    except OSError:
        pass  # it exists and is somebody else's
    seen = proc.stat(pid)
    if seen is None or start is None:
        return UNKNOWN
    if seen.start != start or seen.gone:
        return DEAD
    return ALIVE


def other_boot(boot: "str | None") -> bool:
    """Whether what was written under this boot id ended with that boot: the file system is local."""
    here = proc.boot_id()
    return here is not None and boot is not None and boot != here


def same_place(worker: "Row") -> bool:
    """Whether a worker's pid means here what it means there."""
    return _same(worker["boot_id"], proc.boot_id()) and _same(worker["pid_ns"], proc.pid_namespace())


def liveness(spool: Spool, worker: "Row") -> str:
    """ALIVE, DEAD or UNKNOWN for a row of `workers`."""
    if other_boot(worker["boot_id"]):
        return DEAD
    if not _same(worker["boot_id"], proc.boot_id()):
        return UNKNOWN
    lock = lock_witness(spool, worker)
    if lock == ALIVE:
        return ALIVE
    process = UNKNOWN
    if same_place(worker):
        process = process_witness(int(worker["pid"]), worker["pid_start"])
    if process == ALIVE:
        return ALIVE
    return DEAD if DEAD in (lock, process) else UNKNOWN


def capture_held(spool: Spool, job_id: int, attempt_no: int) -> "bool | None":
    """Whether some process still holds the attempt's capture files; None when there are none."""
    folder = raw(f"{spool.output}/{job_id}/{attempt_no}/")
    answers = [try_shared(folder + b"stdout"), try_shared(folder + b"stderr")]
    if True in answers:
        return True
    return None if None in answers else False
