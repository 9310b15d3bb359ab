"""The checks of --deep: they read everything, each for so long at most."""

import os

from .. import clock
from ..paths import look, owned, raw, text
from ..store import health
from ..terminal import size
from .bound import Bound
from .runner import Outcome, Scene, failed, passed, warned, words

PAGES = 3.0  # seconds for each of them
ROWS = 1.5
FILES = 1.5
SHOWN = 20  # directories that one line names


def quick_check(scene: Scene) -> Outcome:
    found: "list[str]" = []
    with Bound(scene.open_db.conn, PAGES) as bound:
        found = health.problems(scene.open_db)
    if found:
        folder = os.path.dirname(scene.spool.db)
        return failed(f"{len(found)} problems, first {found[0]}; copy it before anything else", look(folder))
    if bound.hit:
        return warned(f"not finished in {PAGES:g} s; nothing was found so far", None)
    return passed("the database is whole")


def counts(scene: Scene) -> Outcome:
    found: "list[str]" = []
    with Bound(scene.open_db.conn, ROWS) as bound:
        found = health.miscounted(scene.open_db)
    if found:
        shown = "; ".join(found[:3])
        return warned(f"status may tell wrong numbers; jobs are added and run all the same: {shown}", None)
    if bound.hit:
        return warned(f"not finished in {ROWS:g} s", None)
    return passed("the numbers of jobs are those of the rows")


def output_size(scene: Scene) -> Outcome:
    """The bytes of the kept output."""
    deadline = clock.monotonic() + FILES
    total, waiting = 0, [raw(scene.spool.output)]
    shut: "list[str]" = []
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if clock.monotonic() > deadline:
                        scene.output_bytes = total
                        message = f"at least {size(total)}; not finished in {FILES:g} s"
                        return warned(message, scene.ours("prune --older-than 30d --dry-run"))
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    else:
                        total += _bytes(entry)
        except FileNotFoundError:
            continue  # pruned meanwhile, or never made
        except OSError:
            shut.append(text(folder))
    scene.output_bytes = total
    if shut:
        return _unread(total, shut)
    return passed(f"{size(total)} of output are kept")


def _unread(total: int, shut: "list[str]") -> Outcome:
    """Directories that cannot be read are in nobody's way: jobs get new ones."""
    number = "one directory" if len(shut) == 1 else f"{len(shut)} directories"
    ours = all(map(owned, shut)) and len(shut) <= SHOWN
    mend = f"chmod u+rwX {words(shut)}" if ours else look(shut[0])
    message = f"at least {size(total)}; {number} of output cannot be read by this user, first {shut[0]}"
    return warned(message, mend)


def _bytes(entry: "os.DirEntry[bytes]") -> int:
    try:
        return entry.stat(follow_symlinks=False).st_size
    except OSError:
        return 0
