"""Fixtures and the surroundings every test runs in."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from pathlib import Path

import people
import pytest
from namespaces import Namespace
from support import Spool

from spoolctl.work import pursuit

for _name in [name for name in os.environ if name.startswith("SPOOLCTL_")]:
    del os.environ[_name]
os.environ["TZ"] = "UTC"
time.tzset()
# Ignored under nohup and behind `&` in a script: every process started here would inherit that.
for _number in (signal.SIGHUP, signal.SIGQUIT):
    signal.signal(_number, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def interruptible():
    """A follower keeps INT and TERM to itself until its process is over: here, that of the tests."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.fixture
def spool(tmp_path: Path):
    """A scratch directory with `run`, `cli`, `start`, `add` … bound to it (support.Spool)."""
    queue = Spool(tmp_path)
    yield queue
    queue.close()


@pytest.fixture
def zone():
    """Set the zone of this process: `zone("Europe/Berlin")`; back to UTC afterwards."""

    def use(name: str) -> None:
        os.environ["TZ"] = name
        time.tzset()

    yield use
    use("UTC")


@pytest.fixture
def in_memory(tmp_path):
    """A directory on a file system in memory, where there is one: hundreds of databases are made."""
    shared = "/dev/shm"
    if not os.access(shared, os.W_OK) or shutil.disk_usage(shared).free < 200 * 1024**2:
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=shared) as folder:
        yield Path(folder)


@pytest.fixture
def namespace(spool):
    """A pid namespace to run things of `spool` in; it ends with all that runs there."""
    inside = Namespace(spool)
    yield inside
    inside.close()


@pytest.fixture
def patient(monkeypatch):
    """Calls in this process wait for the end of a tree as long as a slow machine may need."""
    monkeypatch.setattr(pursuit, "BEYOND_GRACE", 30)
    monkeypatch.setattr(pursuit, "TO_TELL", 20)


@pytest.fixture
def person():
    """Calls as a user who is not root, in a directory of that user (people.Person)."""
    with people.person() as one:
        yield one


@pytest.fixture
def stranger(person):
    """Calls as another user in the directory of `person`; only root has it."""
    return people.stranger(person)
