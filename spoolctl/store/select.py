"""Which jobs a call means: ids, keys and ranges as they were written, or selectors."""

from ..errors import SpoolctlError, invalid
from . import jobs
from .db import Db

CHUNK = 500  # ids a statement; SQLite takes 32 766 values

EXISTING = "SELECT id FROM jobs WHERE id IN ({})"
EXISTING_BETWEEN = "SELECT id FROM jobs NOT INDEXED WHERE id BETWEEN :low AND :high ORDER BY id"


def chunks(ids: "list[int]") -> "list[list[int]]":
    return [ids[i : i + CHUNK] for i in range(0, len(ids), CHUNK)]


def holes(ids: "list[int]") -> str:
    """The placeholders of an IN list."""
    return ", ".join("?" * len(ids))


def single(refs: "list[tuple[str, object]]") -> bool:
    """Whether the answer has the single form: for one plain id or key, not for several, ranges, selectors."""
    return bool(refs) and len(set(refs)) == 1 and refs[0][0] != "range"


def refuse_mixture(verb: str, refs: "list[tuple[str, object]]", queue: "str | None") -> None:
    """For verbs that take ids or a lane: refuse both. A `--queue` beside a key says in which lane.

    Raises INVALID_INPUT.
    """
    if refs and queue is not None and not by_key(refs):
        message = "ids and --queue exclude each other: give one of them"
        raise invalid(message, f"spoolctl {verb} --help", flag="--queue", value=None)


def by_key(refs: "list[tuple[str, object]]") -> bool:
    return any(kind == "key" for kind, _ in refs)


def named(db: Db, refs: "list[tuple[str, object]]", queue: "str | None" = None) -> "list[int]":
    """The distinct ids in the order given; a key is looked for in `queue` where given.

    Raises NOT_FOUND naming all that mean no job.
    """
    plain: "list[int]" = [number for kind, number in refs if kind == "id"]  # type: ignore[misc]
    there = _existing(db, plain)
    found: "dict[int, None]" = {}
    missing: "list[tuple[str, object]]" = []
    for kind, value in dict.fromkeys(refs):
        if kind == "range":
            members = _between(db, *value)  # type: ignore[misc]
        elif kind == "key":
            newest = jobs.newest_id_by_key(db, str(value), queue)
            members = [] if newest is None else [newest]
        else:
            members = [value] if value in there else []
        if not members:
            missing.append((kind, value))
        elif len(refs) == 1:
            return members
        found.update(dict.fromkeys(members))
    if missing:
        raise not_found(missing, queue)
    return list(found)


def one(db: Db, ref: "tuple[str, object]", queue: "str | None" = None) -> int:
    """The id of one reference. Raises NOT_FOUND."""
    return named(db, [ref], queue)[0]


def _between(db: Db, low: int, high: int) -> "list[int]":
    return [row[0] for row in db.execute(EXISTING_BETWEEN, {"low": low, "high": high})]


def _existing(db: Db, ids: "list[int]") -> "set[int]":
    found: "set[int]" = set()
    for part in chunks(ids):
        found.update(row[0] for row in db.execute(EXISTING.format(holes(part)), part))
    return found


def not_found(missing: "list[tuple[str, object]]", queue: "str | None" = None) -> SpoolctlError:
    """NOT_FOUND for references; ids stand in `detail` as numbers, others as they were written."""
    where = f" in lane {queue}" if queue is not None else ""
    words = []
    for kind, value in missing[:10]:
        if kind == "key":
            words.append(f"job with key {value!r}{where}")
        elif kind == "range":
            words.append(f"job from {_written(kind, value)}")
        else:
            words.append(f"job {value}")
    more = f" and {len(missing) - 10} more" if len(missing) > 10 else ""
    return SpoolctlError(
        "NOT_FOUND",
        "there is no " + ", no ".join(words) + more,
        _elsewhere(missing, queue),
        {"missing": [_written(kind, value) for kind, value in missing]},
    )


def _elsewhere(missing: "list[tuple[str, object]]", queue: "str | None") -> str:
    """The list to look for what is missing: a key's in every lane, where one lane was asked."""
    kind, key = missing[0]
    if kind != "key" or queue is None:
        return "spoolctl list"
    from ..terminal import quoted

    return "spoolctl list " + quoted(f"--key={key}")


def _written(kind: str, value: object) -> object:
    if kind == "range":
        return "{}-{}".format(*value)  # type: ignore[misc]
    return f"key:{value}" if kind == "key" else value


def selected(
    db: Db,
    queue: "str | None",
    tags: "list[tuple[str, str | None]]",
    states: "tuple[str, ...] | list[str] | None" = None,
) -> "list[int]":
    """The ids that selectors mean, ascending; `states` None: whatever the state."""
    from .filter import Filter, matching

    return matching(db, Filter(queue=queue, tags=tags, states=states))
