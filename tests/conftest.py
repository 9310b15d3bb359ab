"""Fixtures and the surroundings every test runs in."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from support import Spool

for _name in [name for name in os.environ if name.startswith("SPOOLCTL_")]:
    del os.environ[_name]
os.environ["TZ"] = "UTC"
time.tzset()


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
