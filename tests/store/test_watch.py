"""Being told, in one process: what touches the wake file, and what hears a touch."""

from __future__ import annotations

import ctypes  # noqa: F401 - loaded before descriptors run out
import errno
import os
import resource
import select
import stat
import sys
import threading
import time

import pytest
from looking import started
from workers import scripted

from spoolctl import paths, watch
from spoolctl.contract.limits import WOKEN_EVERY
from spoolctl.store.db import Db
from spoolctl.watch import Watch

LONG = 3600.0  # a rest that goes on so long fails its test


@pytest.fixture
def queue(spool):
    """The place of a queue with one job."""
    spool.add()
    return paths.Spool(str(spool.db), "flag")


@pytest.fixture
def watching(queue):
    """A watch that has begun."""
    found = Watch(queue)
    if not found.begin():
        pytest.skip("this system can watch no file")
    yield found
    found.close()


def touch(queue):
    os.utime(queue.wake)


# --- what touches it --------------------------------------------------------------------------------------


@pytest.fixture
def touches(monkeypatch):
    """A list with an entry for each touch of this process."""
    found, real = [], Db.tell
    monkeypatch.setattr(Db, "tell", lambda db: (found.append(db), real(db)))
    return found


def test_what_others_may_wait_for_is_told_and_nothing_else(spool, touches):
    def told(*words, check=0):
        del touches[:]
        spool.run(*words, check=check)
        return len(touches)

    assert told("add", "--key", "k", "--", "true") == 1
    assert told("add", "--key", "k", "--", "true") == 0  # it is there already: nothing was written
    assert told("add", "--json", "--from", "-") == 0
    spool.add("--", "true")
    assert told("status") == told("list") == told("wait", "1", "--timeout", "0.05", check=4) == 0
    assert told("cancel", "1") == 1
    assert told("cancel", "1", check=5) == 0
    assert told("retry", "1") == 1
    assert told("cancel", "--queue", "default") == 1
    assert told("prune", "--older-than", "1h", "--state", "canceled", "--yes") == 0
    assert told("prune", "--older-than", "0", "--state", "canceled", "--yes") == 1


# A worker that writes down its commits and touches, in order.
COUNTED = """
from spoolctl.store.db import Db, _Write
real, leave = Db.tell, _Write.__exit__
def say(word):
    with open("calls", "a") as calls:
        calls.write(word + "\\n")
def tell(db):
    say("touch")
    real(db)
def ended(write, kind, *rest):
    say("commit full" if write.full else "commit")
    return leave(write, kind, *rest)
Db.tell, _Write.__exit__ = tell, ended
from spoolctl.__main__ import main
main()
"""


def test_a_worker_tells_of_results_and_stamps_and_not_of_claims_leaders_and_registrations(spool):
    def calls():
        return (spool.path / "calls").read_text().splitlines()

    claim, leader, result, leave = ["commit"], ["commit"], ["commit full", "touch"], ["commit"]
    spool.add("-c", "exit 0")
    worker = scripted(spool, COUNTED, "work", "--json", "--once")
    assert worker.wait(30) == 0, worker.stderr.read()
    assert calls() == claim + leader + result + leave
    (spool.path / "calls").unlink()
    job = spool.add("-c", "exec sleep 300")
    worker = scripted(spool, COUNTED, "work", "--json", "--once")
    started(spool, job)
    spool.run("cancel", str(job), "--running", "--yes", check=0)
    assert worker.wait(30) == 0, worker.stderr.read()
    stamp = ["commit", "touch"]
    assert calls() == claim + leader + stamp + result + leave


def test_a_commit_stands_whatever_becomes_of_its_touch(spool, monkeypatch):
    spool.add()

    def refuses(*args, **options):
        raise PermissionError(errno.EPERM, "no")

    with monkeypatch.context() as patched:
        patched.setattr(os, "utime", refuses)
        assert spool.add() == 2
    wake = spool.db.parent / "wake"
    wake.unlink()
    with monkeypatch.context() as patched:
        patched.setattr(watch, "make", refuses)
        assert spool.add() == 3
    assert not wake.exists()
    wake.mkdir()
    assert spool.add() == 4
    wake.rmdir()
    os.mkfifo(wake)
    assert spool.add() == 5


def test_it_is_made_private_and_only_in_a_queue_of_ours(spool, queue, monkeypatch):
    os.unlink(queue.wake)
    before = os.umask(0)
    try:
        spool.add()
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat(queue.wake).st_mode) == 0o600
    os.unlink(queue.wake)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    watch.make(queue)
    assert not os.path.exists(queue.wake)


def test_a_touch_follows_no_link(spool, queue):
    target = spool.path / "target"
    target.touch()
    os.utime(target, (1, 1))
    os.unlink(queue.wake)
    os.symlink(target, queue.wake)
    spool.add()
    assert target.stat().st_mtime == 1
    target.unlink()
    spool.add()
    assert not target.exists()


# --- what hears it ----------------------------------------------------------------------------------------


def test_a_touch_ends_a_rest_and_is_heard_once(spool, queue, watching):
    assert not watching.begin()
    assert not watching.heard()
    spool.add()
    assert watching.heard()
    assert not watching.heard()
    touch(queue)
    assert watching.rest(LONG)
    assert not watching.heard()
    began = time.monotonic()
    assert watching.rest(0.05)
    assert time.monotonic() - began >= 0.05


def leave(queue):
    os.unlink(queue.wake)


def move(queue):
    os.rename(queue.wake, queue.wake + ".old")


def replace(queue):
    with open(queue.wake + ".new", "wb"):
        pass
    os.replace(queue.wake + ".new", queue.wake)


def make_again(queue):
    os.unlink(queue.wake)
    watch.make(queue)


@pytest.mark.parametrize("change", [leave, move, replace, make_again])
def test_a_file_that_leaves_its_place_wakes_and_the_one_there_afterwards_is_watched(
    spool, queue, watching, change
):
    change(queue)
    assert watching.rest(LONG)
    assert watching.begin()
    assert not watching.heard()
    spool.add()
    assert watching.rest(LONG)
    assert watching.fd >= 0 and not watching.begin()


def test_a_replaced_file_that_is_open_elsewhere_is_let_go_too(spool, queue, watching):
    with open(queue.wake, "rb"):  # so its end is not told yet, only that it lost its name
        replace(queue)
        assert watching.rest(LONG)
        assert watching.fd >= 0 and watching.begin()
        spool.add()
        assert watching.rest(LONG)


def test_many_touches_are_one_look_in_ten_milliseconds_and_the_last_is_followed_by_one(queue, watching):
    told, seen, looks = [0], -1, 0
    most = 3000

    def writes():
        for n in range(1, most + 1):
            told[0] = n
            touch(queue)

    began = time.monotonic()
    writer = threading.Thread(target=writes)
    writer.start()
    while seen < most:
        assert watching.rest(LONG)
        seen, looks = told[0], looks + 1
    writer.join()
    assert looks <= (time.monotonic() - began) / WOKEN_EVERY + 2


def test_a_watch_does_not_wake_before_its_time_is_over_again(queue, watching):
    """Its pause counts from its last look."""
    for _ in range(3):
        touch(queue)
        began = time.monotonic()
        watching.looked()
        assert watching.rest(LONG)
        assert time.monotonic() - began >= WOKEN_EVERY


# --- what cannot be watched -------------------------------------------------------------------------------


def test_where_no_descriptor_is_left_it_sleeps_and_tries_again(queue):
    found = Watch(queue)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with open(os.devnull, "rb") as last:
        highest = max(int(name) for name in os.listdir("/dev/fd"))
        kept = [os.dup(last.fileno()) for _ in range(highest)]
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(kept), hard))
        taken = []
        try:
            while True:
                taken.append(os.dup(last.fileno()))
        except OSError:
            pass
        try:
            assert not found.begin()
            assert found.fd == -1
            assert found.rest(0.01)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            for fd in kept + taken:
                os.close(fd)
    assert not found.begin()  # not at every sleep
    found._check_at = 0.0  # a second later
    if sys.platform.startswith("linux"):
        assert found.begin()
    found.close()


@pytest.mark.parametrize(
    "error",
    [OSError(errno.ENOSPC, "watches"), OSError(errno.EMFILE, "instances"), OSError(errno.ENOSYS, "none"),
     AttributeError("inotify_init1"), ImportError("ctypes")],
    ids=repr,
)  # fmt: skip
def test_where_the_system_refuses_it_sleeps(queue, monkeypatch, error):
    def refuses(path):
        raise error

    monkeypatch.setattr(watch, "mechanism", lambda: refuses)
    found = Watch(queue)
    assert not found.begin()
    touch(queue)
    assert (found.fd, found.heard(), found.pause(), found.rest(0.01)) == (-1, False, 0.0, True)
    found.close()


def test_a_queue_that_is_not_there_is_not_made(tmp_path):
    found = Watch(paths.Spool(str(tmp_path / "none" / "queue.db"), "flag"))
    assert not found.begin()
    assert found.rest(0.01)
    assert list(tmp_path.iterdir()) == []


# --- kqueue, by its recorded calls ------------------------------------------------------------------------

NOTES = {"KQ_NOTE_DELETE": 1, "KQ_NOTE_ATTRIB": 8, "KQ_NOTE_RENAME": 32, "KQ_NOTE_REVOKE": 64}


class FakeEvent:
    def __init__(self, ident, filter=0, flags=0, fflags=0):
        self.ident, self.filter, self.flags, self.fflags = ident, filter, flags, fflags


class FakeKqueue:
    """Tells what `put` was given, as the kernel does for the file that was registered."""

    made: FakeKqueue

    def __init__(self):
        FakeKqueue.made = self
        self.reader, self.writer = os.pipe()
        self.registered, self.waiting, self.closed = [], [], False

    def fileno(self):
        return self.reader

    def put(self, fflags):
        self.waiting.append(FakeEvent(self.registered[0].ident, fflags=fflags))
        os.write(self.writer, b"x")

    def control(self, changes, most, timeout=None):
        assert timeout == 0
        if changes:
            self.registered += changes
            return []
        found, self.waiting = self.waiting, []
        if found:
            os.read(self.reader, 100)
        return found

    def close(self):
        self.closed = True
        os.close(self.reader)
        os.close(self.writer)


@pytest.fixture
def kqueue(monkeypatch):
    constants = NOTES | {"KQ_FILTER_VNODE": -4, "KQ_EV_ADD": 1, "KQ_EV_CLEAR": 32}
    for name, value in constants.items():
        monkeypatch.setattr(select, name, value, raising=False)
    monkeypatch.setattr(select, "kevent", FakeEvent, raising=False)
    monkeypatch.setattr(select, "kqueue", FakeKqueue, raising=False)


def test_by_kqueue_a_touch_ends_a_rest_and_a_lost_file_is_watched_anew(queue, kqueue):
    found = Watch(queue)
    assert found.begin()
    first = FakeKqueue.made
    (event,) = first.registered
    assert os.path.samestat(os.fstat(event.ident), os.stat(queue.wake))
    assert not os.get_inheritable(event.ident)
    assert (event.filter, event.flags, event.fflags) == (-4, 1 | 32, sum(NOTES.values()))
    assert not found.heard() and not found.begin()
    first.put(NOTES["KQ_NOTE_ATTRIB"])
    assert found.rest(LONG)
    assert found.fd == first.fileno() and not first.closed
    first.put(NOTES["KQ_NOTE_DELETE"])
    assert found.rest(LONG)
    assert first.closed and found.fd == -1
    assert found.begin()
    assert FakeKqueue.made is not first
    found.close()


def test_by_kqueue_what_cannot_be_opened_or_registered_leaves_nothing_open(queue, kqueue, monkeypatch):
    def refuses(queue, *args):
        raise OSError(errno.ENOMEM, "no")

    monkeypatch.setattr(FakeKqueue, "control", refuses)
    before = set(os.listdir("/dev/fd"))
    found = Watch(queue)
    assert not found.begin()
    FakeKqueue.made.close()  # the real one closes itself
    assert set(os.listdir("/dev/fd")) == before
    os.unlink(queue.wake)
    os.symlink("elsewhere", queue.wake)
    found._check_at = 0.0
    assert not found.begin()
