"""status: how the queue stands: numbers, workers, what runs and what died last.

Its cost does not grow with the number of jobs. It only looks: a dead worker's jobs are shown as
orphaned and left to the next worker.
"""

from .. import clock
from ..contract import limits
from ..contract.spec import Args, Flag, Result, Verb
from ..contract.types import Integer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..context import Context
    from ..store.db import Db, Row
    from ..terminal import View

SPEC = Verb(
    "status",
    "show how the queue stands",
    "alive is null for a worker that cannot be judged from here. A running job is orphaned when its "
    "worker is dead: the next worker to look takes it back.",
    flags=(
        Flag(
            "--limit",
            Integer(0, limits.STATUS_MAX),
            limits.STATUS_DEFAULT,
            f"at most so many workers, running and dead jobs; 0 is the most allowed, {limits.STATUS_MAX}",
        ),
    ),
    examples=(
        ("spoolctl status", "counts, workers, running jobs and recent deaths"),
        ("spoolctl status --json --limit 100", "the same as JSON, with longer lists"),
    ),
    errors=(
        "INVALID_INPUT", "UNKNOWN_FLAG", "SAFETY_BLOCK", "DB_INVALID", "DB_READONLY", "LOCKED", "INTERNAL",
    ),
    warnings=("NO_WORKER",),
)  # fmt: skip


def data() -> "dict[str, object]":
    from ..contract import shapes as s

    worker = s.obj(
        worker_id=s.STR,
        pid=s.ID,
        queue=s.STR,
        alive=s.nullable(s.BOOL),
        running=s.COUNT,
        concurrency=s.ID,
        started_at=s.TIME,
    )
    running = s.obj(
        id=s.ID,
        command=s.STR,
        queue=s.STR,
        worker_id=s.STR,
        attempt_no=s.ID,
        started_at=s.TIME,
        orphaned=s.BOOL,
        ending=s.ENDING,
    )
    dead = s.obj(
        id=s.ID,
        command=s.STR,
        attempts=s.COUNT,
        crashes=s.COUNT,
        last_error=s.nullable(s.STR),
        finished_at=s.TIME,
        stdout_path=s.nullable(s.STR),
        stderr_path=s.nullable(s.STR),
    )
    return s.obj(
        counts=s.COUNTS,
        scheduled=s.COUNT,
        scheduled_capped_={"const": True},
        queues=s.table(s.obj(counts=s.COUNTS, scheduled=s.COUNT)),
        workers=s.arr(worker),
        running_jobs=s.arr(running),
        orphaned=s.COUNT,
        recent_dead=s.arr(dead),
    )


def run(args: Args, ctx: "Context") -> Result:
    limit = int(args.limit) or limits.STATUS_MAX
    db = ctx.reader()
    with db.read():
        answer, warnings, idle = _look(db, ctx, limit)
    commands = [ctx.with_db(line) for line in idle[:2]]
    if answer["recent_dead"]:
        commands.append(ctx.with_db(f"spoolctl feedback {answer['recent_dead'][0]['id']}"))
    return Result(answer, commands, warnings)


def _look(db: "Db", ctx: "Context", limit: int) -> "tuple[Row, list[tuple[str, str]], list[str]]":
    """(the answer, warnings, the lines that run what nobody would)."""
    from ..store import counts, workers
    from ..work import serving

    now = clock.now()
    lanes, queued = counts.by_lane(db)
    scheduled = dict.fromkeys(lanes, 0)
    for (lane, kind), n in queued.items():
        scheduled[lane] += counts.scheduled(db, lane, kind, n, now)
    total = sum(scheduled.values())
    known = {int(w["instance"]): w for w in workers.all_rows(db)}
    alive = _liveness(db, known)
    running = counts.running_by_owner(db)
    answer: "Row" = {
        "counts": {state: sum(lane[state] for lane in lanes.values()) for state in counts.zeros()},
        "scheduled": min(total, limits.SCHEDULED_CAP),
    }
    if total > limits.SCHEDULED_CAP:
        answer["scheduled_capped"] = True
    answer["queues"] = {
        lane: {"counts": states, "scheduled": min(scheduled[lane], limits.SCHEDULED_CAP)}
        for lane, states in lanes.items()
    }
    answer["workers"] = _workers(known, alive, running, limit)
    answer["running_jobs"] = [
        _running(job, attempt, _is_orphaned(job["owner"], alive))
        for job, attempt in counts.running(db, limit)
    ]
    answer["orphaned"] = sum(n for owner, n in running.items() if _is_orphaned(owner, alive))
    answer["recent_dead"] = [_dead(db, job, attempt) for job, attempt in counts.recently_dead(db, limit)]
    served = {w["lane"] for i, w in known.items() if w["kind"] == "command" and alive[i]}
    waiting = [lane for lane, kind in queued if kind == "command" and lane not in served]
    unserved = _due(db, waiting, now, limit)
    idle = list(unserved)
    if answer["orphaned"] and not any(alive.values()):
        # Any worker brings these back; the lane is that of the first which is shown.
        idle += [job["queue"] for job in answer["running_jobs"] if job["orphaned"]][:1]
    return (
        answer,
        [serving.no_worker(ctx, lane) for lane in unserved],
        [serving.work_line(ctx, lane, "--drain") for lane in dict.fromkeys(idle)],
    )


def _liveness(db: "Db", known: "dict[int, Row]") -> "dict[int, bool | None]":
    """{instance: alive}, None for what cannot be judged."""
    from ..work import identity

    words = {identity.ALIVE: True, identity.DEAD: False, identity.UNKNOWN: None}
    return {instance: words[identity.liveness(db.spool, worker)] for instance, worker in known.items()}


def _is_orphaned(owner: object, alive: "dict[int, bool | None]") -> bool:
    """Whether a running job's worker is proven dead or not even known. Instance 0 is no worker: a lease
    of an outside consumer, which ends by its deadline."""
    return owner != 0 and alive.get(owner, False) is False  # type: ignore[call-overload]


def _due(db: "Db", lanes: "list[str]", now: float, limit: int) -> "list[str]":
    """Those of the unserved lanes in which a command is due."""
    from ..store import claim

    found: "list[str]" = []
    for lane in lanes:
        if len(found) < limit and claim.look(db, lane, "command", now)[0]:
            found.append(lane)
    return found


def _workers(
    known: "dict[int, Row]",
    alive: "dict[int, bool | None]",
    running: "dict[int, int]",
    limit: int,
) -> "list[Row]":
    """The living first, then those that cannot be judged, then the dead."""
    order = sorted(known, key=lambda i: ((True, None, False).index(alive[i]), i))
    return [
        {
            "worker_id": known[i]["label"],
            "pid": known[i]["pid"],
            "queue": known[i]["lane"],
            "alive": alive[i],
            "running": running.get(i, 0),
            "concurrency": known[i]["concurrency"],
            "started_at": known[i]["started_at"],
        }
        for i in order[:limit]
    ]


def _running(job: "Row", attempt: "Row", orphaned: bool) -> "Row":
    from ..store import attempts, jobs

    return {
        "id": job["id"],
        "command": jobs.command_text(job),
        "queue": job["queue"],
        "worker_id": attempt["worker_label"],
        "attempt_no": attempt["attempt_no"],
        "started_at": attempt["started_at"],
        "orphaned": orphaned,
        "ending": attempts.ending(attempt),
    }


def _dead(db: "Db", job: "Row", attempt: "Row") -> "Row":
    from ..store import attempts, jobs

    stdout, stderr = attempts.paths(db.spool, attempt)
    return {
        "id": job["id"],
        "command": jobs.command_text(job),
        "attempts": job["attempts"],
        "crashes": job["crashes"],
        "last_error": job["last_error"],
        "finished_at": job["finished_at"],
        "stdout_path": stdout,
        "stderr_path": stderr,
    }


def text(data: "Row", view: "View") -> str:
    from ._board import board

    return board(data, view)
