"""The example that the capabilities give of each code is a call that is answered with it."""

from __future__ import annotations

import shlex

import pytest

from spoolctl.describe.codes import EXAMPLES


def added(spool, *words):
    return spool.add(*(words or ("--after", "1h", "--", "true")))


def seventh(spool, *words):
    """Job 7, and nothing due before it."""
    for _ in range(6):
        added(spool)
    assert added(spool, *words) == 7


SITUATIONS = {
    "NOT_FOUND": added,
    "TIMEOUT": seventh,
    "CONFLICT": lambda spool: (seventh(spool, "--", "true"), spool.run("work", "--drain", check=0)),
    "IDEMPOTENCY_CONFLICT": lambda spool: added(spool, "--key", "k", "--", "true"),
    "DB_CREATED": lambda spool: None,
    "NO_ATTEMPTS_YET": seventh,
    "NO_WORKER": lambda spool: None,
    "IDEMPOTENCY_METADATA_DIFFERS": lambda spool: added(spool, "--key", "k", "--", "true"),
    "SHARED_PERMISSIONS": lambda spool: (added(spool), spool.db.chmod(0o666)),
}
# What these need takes other users, full disks, stopped workers: the tests of these things have them.
ELSEWHERE = {"DB_READONLY", "LOCKED", "DISK_FULL", "KILL_ASYNC", "UNVERIFIABLE_OWNER"}


def test_every_example_is_run_somewhere():
    alone = {code for code, (_, situation) in EXAMPLES.items() if not situation}
    assert set(EXAMPLES) == alone | set(SITUATIONS) | ELSEWHERE


@pytest.mark.parametrize("code", sorted(set(EXAMPLES) - ELSEWHERE))
def test_an_example_gives_its_code(spool, code):
    command, situation = EXAMPLES[code]
    if code in SITUATIONS:
        SITUATIONS[code](spool)
    words = shlex.split(command)[1:]
    answer = spool.run("--json", *words)
    assert code in (answer.code, *answer.warnings), (situation, answer)
