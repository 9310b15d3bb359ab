"""The checks of --deep: they read everything, each for so long at most."""

import os

from .. import clock
from ..paths import raw
from ..store import health
from ..terminal import size
from .bound import Bound
from .runner import ELSEWHERE, Outcome, Scene, failed, passed, warned

PAGES = 3.0  # seconds for each of them
ROWS = 1.5
FILES = 1.5


def quick_check(scene: Scene) -> Outcome:
    found: "list[str]" = []
    with Bound(scene.open_db.conn, PAGES) as bound:
        found = health.problems(scene.open_db)
    if found:
        return failed(f"{len(found)} problems, first {found[0]}", ELSEWHERE)
    if bound.hit:
        return warned(f"not finished in {PAGES:g} s; nothing was found so far", scene.ours("doctor --deep"))
    return passed("the database is whole")


def counts(scene: Scene) -> Outcome:
    found: "list[str]" = []
    with Bound(scene.open_db.conn, ROWS) as bound:
        found = health.miscounted(scene.open_db)
    if found:
        return failed(f"numbers of jobs are wrong: {'; '.join(found[:3])}", scene.ours("status"))
    if bound.hit:
        return warned(f"not finished in {ROWS:g} s", scene.ours("status"))
    return passed("the numbers of jobs are those of the rows")


def output_size(scene: Scene) -> Outcome:
    """The bytes of the kept output."""
    deadline = clock.monotonic() + FILES
    total, waiting = 0, [raw(scene.spool.output)]
    while waiting:
        folder = waiting.pop()
        try:
            entries = os.scandir(folder)
        except FileNotFoundError:
            continue  # pruned meanwhile, or never made
        with entries:
            for entry in entries:
                if clock.monotonic() > deadline:
                    scene.output_bytes = total
                    message = f"at least {size(total)}; not finished in {FILES:g} s"
                    return warned(message, scene.ours("prune --older-than 30d --dry-run"))
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                else:
                    total += _bytes(entry)
    scene.output_bytes = total
    return passed(f"{size(total)} of output are kept")


def _bytes(entry: "os.DirEntry[bytes]") -> int:
    try:
        return entry.stat(follow_symlinks=False).st_size
    except OSError:
        return 0
