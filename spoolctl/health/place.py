"""Checks of the place: the config, the path, the directories, the file, and who else gets at them."""

import os

from .. import config, paths
from ..paths import look, owned, raw
from ..store.file import check_beside, inspect
from ..store.place import in_folder
from ..terminal import quoted
from . import runner
from .runner import ELSEWHERE, Outcome, Scene, failed, may, passed, warned

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..errors import SpoolctlError

NAME_MAX = 255 - len("-journal")  # SQLite puts its files beside the database, under its name
PATH_MAX = 512 - len("-journal")


def config_path(scene: Scene) -> "str | None":
    """The file that would be read from here, None where there is no directory."""
    from ..errors import SpoolctlError

    try:
        return config.path_in(paths.project(scene.ctx.cwd(), os.geteuid())[0])
    except SpoolctlError:
        return None


def config_valid(scene: Scene) -> Outcome:
    from ..errors import SpoolctlError

    path = config_path(scene)
    try:
        found = scene.ctx.config()
    except SpoolctlError as error:
        if path is None:
            return failed(error.message, f"cd && {scene.ours('doctor')}")
        return failed(error.message, _mend_config(scene, path))
    if found.unknown:
        return warned(
            f"{found.path} has keys that are ignored: {', '.join(found.unknown[:10])}"[:1000],
            f"spoolctl config-validate {quoted(found.path)}",
        )
    return passed(
        f"{found.path} is valid" if found.exists else f"{found.path} is not there: the defaults hold"
    )


def _mend_config(scene: Scene, path: str) -> str:
    """Make it readable, or show it: it may name the database, so by the defaults there could be another
    queue. What is no file is set aside."""
    folder = os.path.dirname(path)
    if os.path.isdir(raw(folder)) and not may(folder, os.X_OK):
        return _chmod(scene, [folder])
    if not os.path.isfile(raw(path)):
        return _aside(path)
    return f"chmod u+r {quoted(path)}" if owned(path) and not may(path, os.R_OK) else paths.show(path)


def _aside(path: str) -> str:
    """The line that gives it a name of its own, so that nothing is lost; only in a directory that is the
    queue's own, for elsewhere it may be somebody's work."""
    if not (in_folder(path) or os.path.basename(path) == paths.FOLDER):
        return look(path)
    name, number = f"{path}.aside", 1
    while os.path.lexists(raw(name)):
        number += 1
        name = f"{path}.aside{number}"
    return f"mv -n {quoted(path)} {quoted(name)}"


def db_path_resolved(scene: Scene) -> Outcome:
    from ..errors import SpoolctlError

    try:
        scene.place = scene.ctx.spool()
    except SpoolctlError as error:
        return failed(error.message, _mend_path(scene, error))
    scene.base = _existing(os.path.dirname(scene.spool.db))
    db = raw(scene.spool.db)
    if len(db) > PATH_MAX or len(os.path.basename(db)) > NAME_MAX or max(map(len, db.split(b"/"))) > 255:
        return failed("the path is longer than can be opened", ELSEWHERE)
    return passed(f"{scene.spool.db} (from {scene.spool.source.replace('_', ' ')})")


def _mend_path(scene: Scene, error: "SpoolctlError") -> str:
    """Of a directory without a queue: that of the project in it, else what there is in it."""
    flag, value = error.detail.get("flag"), str(error.detail.get("value") or "")
    base = os.path.dirname(scene.ctx.config().path) if flag == "db_path" else scene.ctx.cwd()
    folder = os.path.normpath(os.path.join(base, value))
    if not value or not os.path.isdir(raw(folder)):
        return "unset SPOOLCTL_DB" if flag == "SPOOLCTL_DB" else ELSEWHERE
    inner = os.path.join(folder, paths.FOLDER, paths.NAME)
    return f"spoolctl doctor --db {quoted(inner)}" if os.path.isfile(raw(inner)) else look(folder)


def _existing(folder: str) -> str:
    """The nearest of a directory and those above it that is there, whatever it is."""
    while not os.path.lexists(raw(folder)) and os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder)
    return folder


def spool_directory_writable(scene: Scene) -> Outcome:
    """Whether the database's files can be made, and what a worker makes beside it."""
    folder, base = os.path.dirname(scene.spool.db), scene.base
    if not os.path.isdir(raw(base)):
        ours = os.path.basename(base) == paths.FOLDER and may(os.path.dirname(base), os.W_OK | os.X_OK)
        return failed(f"{base} is not a directory", _aside(base) if ours else look(base))
    there = base == folder and scene.db_bytes() > 0
    # What is new in a directory is made safe by opening the directory.
    if not may(base, os.W_OK | os.X_OK | (0 if there else os.R_OK)):
        return failed(f"{base} cannot be written by this user", _chmod(scene, [base]))
    spool = scene.spool
    for path in (spool.output, spool.workers):
        if os.path.lexists(raw(path)) and not os.path.isdir(raw(path)):
            return failed(f"{path} is not a directory", _aside(path))
    for path in (spool.gate, spool.wake):
        if os.path.isdir(raw(path)):
            return failed(f"{path} is a directory", _aside(path))
    shut = [path for path in (spool.output, spool.workers) if os.path.isdir(raw(path)) and not may(path, 7)]
    shut += [p for p in (spool.gate, spool.wake) if os.path.exists(raw(p)) and not may(p, os.R_OK | os.W_OK)]
    if shut:
        return failed(f"{', '.join(shut)} cannot be written by this user", _chmod(scene, shut))
    scene.writable = True
    return passed(f"{base} can be written" + ("" if base == folder else ": what is missing below is made"))


def _chmod(scene: Scene, shut: "list[str]") -> str:
    """The line that opens what is the queue's own: a `.spoolctl/` and what lies in it, of which not all can
    be seen from outside, and the project's directory, where nobody named another place.

    `X`: search, for directories only.
    """
    if not all(owned(path) for path in shut) or any(_read_only(path) for path in shut):
        return ELSEWHERE
    own = [path for path in shut if in_folder(path) or os.path.basename(path) == paths.FOLDER]
    named = scene.place is not None and scene.spool.source != "default"
    if len(own) < len(shut) and named:
        return look(shut[0])
    whole = any(os.path.basename(path) == paths.FOLDER for path in shut)
    return f"chmod {'-R ' if whole else ''}u+rwX {runner.words(shut)}"


def _read_only(path: str) -> bool:
    try:
        return bool(os.statvfs(raw(path)).f_flag & os.ST_RDONLY)
    except OSError:
        return False


def database_exists(scene: Scene) -> Outcome:
    """Whether there is a file to open; none is fine before the first job, and two names of it never are."""
    from ..errors import SpoolctlError

    db = scene.spool.db
    try:
        scene.info = inspect(scene.spool)
    except SpoolctlError as error:
        return failed(error.message, _mend_file(scene, error))
    if scene.info is None:
        check_beside(scene.spool)
        return warned("there is no database yet; the first add makes it", None, stops=True)
    if scene.info.st_size == 0 and not may(db, os.R_OK | os.W_OK):
        mend = f"chmod u+rw {quoted(db)}" if in_folder(db) and owned(db) else look(db)
        return failed(f"{db} cannot be written by this user", mend)
    if scene.info.st_size == 0:
        return warned("the database is still empty; the first add fills it", None, stops=True)
    return passed(f"{db} is there")


def _mend_file(scene: Scene, error: "SpoolctlError") -> str:
    """What shows the other names, or whoever put something there: a person has to choose. Only names nearby
    are looked for: a whole disk takes minutes. `-ls` tells how many there are in all."""
    db = scene.spool.db
    try:
        info = os.lstat(raw(db))
    except OSError:
        shut = os.path.isdir(raw(scene.base)) and not may(scene.base, os.X_OK)
        return _chmod(scene, [scene.base]) if shut else look(scene.base)
    if error.code == "SAFETY_BLOCK":
        return look(os.path.dirname(db))
    if info.st_nlink < 2 or not os.path.isfile(raw(db)):
        return look(db)
    near = quoted(os.path.dirname(os.path.dirname(db)))
    return f"find {near} -xdev -maxdepth 2 -samefile {quoted(db)} -ls 2>/dev/null || true"


def filesystem_type(scene: Scene) -> Outcome:
    from ..errors import SpoolctlError
    from ..store import place

    try:
        place.check_filesystem(scene.spool, file_mount=True)
    except SpoolctlError as error:
        return failed(error.message, ELSEWHERE)
    kind = place.filesystem(scene.spool.db)
    if kind is None:
        return passed("of what type the file system is cannot be told here")
    return passed(f"the file system is {kind}")


def permissions(scene: Scene) -> Outcome:
    """Whoever can write the queue can run commands as its user; whoever can read it sees environments."""
    from ..store import place

    spool = scene.spool
    found = place.shared(spool)
    if found:
        path, what, refused = max(found, key=lambda one: one[2])
        # Only what is proven to be a queue is changed: the path may name any file.
        mend = (
            "writable" in what and _is_queue(scene) and place.closing([*place.wide(spool), path])
        ) or look(path)
        if refused:
            return failed(f"{path} {what}: whoever can write it can run commands as you", mend)
        return warned(f"{path} {what}", mend)
    try:
        if not os.stat(raw(os.path.dirname(spool.db))).st_mode & 0o011:
            return passed("only this user can enter the directory")
    except FileNotFoundError:
        return passed("what is made will be private")
    open_ones = [path for path in place.files(spool)[1:] if _readable(path)]
    if open_ones:
        message = f"others may read {', '.join(open_ones)}"
        return warned(message, f"chmod go-rwx {runner.words(open_ones)}" if _is_queue(scene) else None)
    return passed("only this user can read and write it")


def _is_queue(scene: Scene) -> bool:
    """Whether the file is a database of ours, or there is none yet and the directory is made for one."""
    return in_folder(scene.spool.db) if scene.info is None else scene.db is not None


def _readable(path: str) -> bool:
    """Whether others may read it; a group in which only this user is does not count."""
    from ..store.place import own_group

    try:
        info = os.stat(raw(path))
    except OSError:
        return False
    return bool(info.st_mode & (0o005 if own_group(info.st_gid) else 0o055))
