"""A page of jobs, newest first, with their tags: what `list` answers from."""

from . import jobs
from .db import Db
from .filter import Filter, matching
from .select import chunks, holes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .db import Row

OLDEST = "SELECT min(id) FROM jobs"
BY_IDS = jobs.SELECT + " WHERE id IN ({}) ORDER BY id DESC"
TAGS_BY_IDS = "SELECT job_id, key, value FROM job_tags WHERE job_id IN ({}) ORDER BY job_id, key"


def page(db: Db, wanted: Filter, limit: int) -> "tuple[list[Row], bool, int | None]":
    """(jobs of the contract, whether more would follow, the oldest id kept), all of one moment."""
    with db.read():
        ids = matching(db, wanted, limit + 1, newest_first=True)
        oldest = db.one(OLDEST)
        found = by_ids(db, ids[:limit])
    return found, len(ids) > limit, oldest[0] if oldest else None


def by_ids(db: Db, ids: "list[int]") -> "list[Row]":
    """The jobs of the contract for ids that descend, as far as they are there."""
    found = []
    for part in chunks(ids):
        tags: "dict[int, dict[str, str]]" = {}
        for job_id, key, value in db.all(TAGS_BY_IDS.format(holes(part)), part):
            tags.setdefault(job_id, {})[str(key)] = str(value)
        for values in db.all(BY_IDS.format(holes(part)), part):
            row = dict(zip(jobs.COLUMNS, values, strict=True))
            found.append(jobs.to_job(row, tags.get(row["id"], {})))
    return found
