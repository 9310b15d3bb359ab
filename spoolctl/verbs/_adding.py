"""What adding one job and adding many share: the queue to add to, and what is said afterwards."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..context import Context
    from ..store.db import Db, Row


def open_queue(ctx: "Context") -> "Db":
    """The queue to add to, made when missing. Raises DB_INVALID for a place that cannot hold one."""
    from ..store.place import check_filesystem

    check_filesystem(ctx.spool())
    return ctx.writer(create=True)


def metadata_differences(db: "Db", existing: "Row", row: "Row", tags: "dict[str, str]") -> "Row":
    """{field: {existing, submitted}} of tags, note and the schedule as it was asked for."""
    from ..store import jobs

    pairs = {
        "tags": (jobs.tags_of(db, existing["id"]), tags),
        "note": (existing["note"], row["note"]),
        "schedule": (existing["asked"], row["asked"]),
    }
    return {name: {"existing": old, "submitted": new} for name, (old, new) in pairs.items() if old != new}


def metadata_warning(job_id: object, differences: "Row") -> "list[tuple[str, str]]":
    if not differences:
        return []
    message = f"job {job_id} is kept as it is; it differs in {', '.join(differences)}"
    return [("IDEMPOTENCY_METADATA_DIFFERS", message)]


def lane_warning(ctx: "Context", db: "Db", queue: str) -> "list[tuple[str, str]]":
    """NO_WORKER when nobody alive serves the lane."""
    from ..work import serving

    return [] if serving.serves(db, queue) else [serving.no_worker(ctx, queue)]


def drain_line(ctx: "Context", queue: str) -> str:
    """What runs the lane's jobs and returns: to wait for them without a worker would not."""
    from ..work import serving

    return serving.work_line(ctx, queue, "--drain")


def after_bulk(db: "Db") -> None:
    """Keep the WAL bounded where no worker does it: a guarded checkpoint above the trigger."""
    from ..store.db import ADD_TRIGGER

    if db.wal_bytes() >= ADD_TRIGGER:
        from ..store.checkpoint import Checkpointer

        checkpointer = Checkpointer(db, ADD_TRIGGER)
        checkpointer.attempt()
        checkpointer.close()
