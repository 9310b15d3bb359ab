"""What cancel and retry share: naming jobs, following requests, and telling one job's fate from many."""

from ..contract.env import TOKEN
from ..contract.spec import Args
from ..errors import SpoolctlError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from ..context import Context
    from ..store.db import Db, Row
    from ..work.pursuit import Pursuit

SHOWN = 10  # skipped jobs that a text answer names


def named_or_selected(args: Args, db: "Db", states: "tuple[str, ...]") -> "tuple[list[int], bool]":
    """(ids, whether they were selected rather than named). Raises NOT_FOUND."""
    from ..store import select

    refs, queue, tags = args.id, args.queue, args.tag
    if refs:
        return select.named(db, refs, queue), False
    return select.selected(db, queue, tags, states), True


def in_turn(db: "Db", ids: "list[int]", change: "Callable[[sqlite3.Connection, int, float], None]") -> None:
    """Call `change` (connection, id, epoch seconds) for each job, in write transactions that stay short."""
    if len(ids) == 1:
        from .. import clock

        with db.write() as conn:
            change(conn, ids[0], clock.now())
    elif ids:
        from ..store.pace import Pace

        pace = Pace(db)
        try:
            pace.each(ids, change)
        finally:
            pace.close()


def pursue(
    db: "Db", job_ids: "list[int]", what: str, unverified: bool, ctx: "Context"
) -> "tuple[list[Pursuit], list[int]]":
    """(the requests to running jobs, stored and followed to their outcome; jobs whose attempt was over
    before or without them: what these are now decides).

    What follows them is loaded only when there is something to follow.
    """
    if not job_ids:
        return [], []
    from ..store import owners
    from ..work import pursuit

    pursuits, moved = [], []
    for job_id in job_ids:
        job = owners.running_job(db, job_id)
        if job is None:
            moved.append(job_id)
        else:
            pursuits.append(pursuit.Pursuit(db, job, what, unverified, ctx.environ.get(TOKEN)))
    by_id = {one.job_id: one for one in pursuits}
    in_turn(db, list(by_id), lambda conn, job_id, now: by_id[job_id].ask(conn, now))
    pursuit.pursue(db, pursuits)
    moved += [one.job_id for one in pursuits if one.outcome == pursuit.MOVED]
    return [one for one in pursuits if one.outcome != pursuit.MOVED], moved


def pending(pursuits: "list[Pursuit]") -> "list[int]":
    """The jobs that are still being ended."""
    if not pursuits:
        return []
    from ..work.pursuit import PENDING

    return [one.job_id for one in pursuits if one.outcome == PENDING]


def killing(pursuits: "list[Pursuit]", what: str) -> "list[tuple[str, str]]":
    """The warning about jobs that are still being ended; `what` says what becomes of them."""
    jobs = pending(pursuits)
    if not jobs:
        return []
    text = f"job {jobs[0]} is" if len(jobs) == 1 else f"{len(jobs)} jobs are"
    inside = "; this call belongs to it and leaves it to others" if any(p.inside for p in pursuits) else ""
    return [("KILL_ASYNC", f"{text} still being ended; {what}{inside}")]


def why_not(one: "Pursuit", verb: str) -> "SpoolctlError | None":
    """The CONFLICT of a request that could not be followed."""
    from ..work import pursuit

    remedies = {
        pursuit.UNVERIFIABLE: (
            "its owner cannot be judged from here (--unverified acts all the same)",
            f"spoolctl show {one.job_id}",
        ),
        pursuit.NOT_STARTED: (
            "its owner is stopped before the command started",
            f"spoolctl show {one.job_id}",
        ),
        pursuit.REFUSED: ("it is canceled by another call", f"spoolctl show {one.job_id}"),
    }
    if one.outcome not in remedies:
        return None
    message, remedy = remedies[str(one.outcome)]
    if one.outcome == pursuit.REFUSED:
        detail: "Row" = {"job_id": one.job_id, "state": state_of(one.db, one.job_id)}
    else:
        detail = {"job_id": one.job_id, "state": "running", "why": one.outcome}
    return SpoolctlError("CONFLICT", f"cannot {verb} job {one.job_id}: {message}", remedy, detail)


def state_of(db: "Db", job_id: int) -> str:
    from ..store import control

    seen = control.watched(db, job_id)
    return str(seen["state"]) if seen else "pruned"


def none_changed(skipped: "list[Row]", confirmed: str) -> SpoolctlError:
    """Jobs were named, and none of them could be changed; `confirmed` is the call that ends running ones."""
    blocked = any(one["code"] == "SAFETY_BLOCK" for one in skipped)
    one = len(skipped) == 1
    return SpoolctlError(
        "CONFLICT",
        ("the job was not changed" if one else f"none of the {len(skipped)} jobs was changed")
        + ((", for it runs" if one else ", and some of them run") if blocked else ""),
        confirmed if blocked else "spoolctl list",
        {"skipped": skipped},
    )


def skipped_lines(skipped: "list[Row]") -> str:
    """The jobs that were left alone, a line each, for text answers."""
    lines = [f"  job {one['job_id']}: {one['code']}\n" for one in skipped[:SHOWN]]
    more = len(skipped) - len(lines)
    return "".join(lines) + (f"  and {more} more\n" if more else "")


def unverified_warning(pursuits: "list[Pursuit]") -> "list[tuple[str, str]]":
    used = [str(one.job_id) for one in pursuits if one.used_unverified]
    if not used:
        return []
    what = "its owner could not be judged, or its tree not be ended"
    return [("UNVERIFIABLE_OWNER", f"--unverified was needed for job {', '.join(used[:20])}: {what}")]
