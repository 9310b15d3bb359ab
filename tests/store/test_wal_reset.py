"""SPEC 7: SQLite before 3.51.3 can lose a commit that starts the log anew while a checkpoint begins. With our
checkpoints none is lost, whatever SQLite is at hand; without them, the soak test says what came of it.
"""

from __future__ import annotations

import os

import pytest
from wal_reset import Play


def play(in_memory, guarded, seconds):
    return Play(os.path.realpath(in_memory) + "/queue.db", guarded, seconds)


def held(found):
    assert not found.lost, found
    assert found.whole == "ok", found
    # The stop did fall inside checkpoints: commits stood before the lock until they were refused.
    assert found.refused > 0, found


def test_no_acknowledged_commit_is_lost_however_a_guarded_checkpoint_is_interrupted(in_memory):
    held(play(in_memory, True, 3))


@pytest.mark.soak
@pytest.mark.timeout(400)
def test_none_is_lost_in_minutes_either(in_memory, capsys):
    found = play(in_memory, True, 240)
    with capsys.disabled():
        print(f"\nwith the guard: {found}")
    held(found)


@pytest.mark.soak
@pytest.mark.timeout(400)
def test_what_a_checkpoint_without_the_guard_does_here(in_memory, capsys):
    """Told, not judged: a race need not be hit, and a newer SQLite has none."""
    found = play(in_memory, False, 240)
    with capsys.disabled():
        print(f"\nwithout the guard: {found}")
