"""The ids of the jobs that fulfil given conditions, by the index that has the fewest rows for them.

Each of these indexes ends in the id, so that no filter ever sorts the table; what the index does not
cover is looked at row by row. Answers are exact, and of one state of the database.
"""

from ..contract.states import TERMINAL
from . import ddl
from .db import Db

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .db import Row

PROBE = 10_000  # rows of a key or tag that are counted to compare indexes
MANY = 100_000  # what a key or tag with more than that is taken for


class Filter:
    """What jobs must have; None or empty: anything. `tags` are pairs, of which a None value means any.

    `before` and `after` bound the id, `since` and `until` the time of `add` (both inclusive);
    `ended_before` takes only jobs that ended before that time.
    """

    def __init__(
        self,
        queue: "str | None" = None,
        states: "Sequence[str] | None" = None,
        tags: "Sequence[tuple[str, str | None]]" = (),
        key: "str | None" = None,
        kind: "str | None" = None,
        priority_min: "int | None" = None,
        since: "float | None" = None,
        until: "float | None" = None,
        before: "int | None" = None,
        after: "int | None" = None,
        ended_before: "float | None" = None,
    ) -> None:
        self.queue = queue
        self.states = states
        self.tags = tags
        self.key = key
        self.kind = kind
        self.priority_min = priority_min
        self.since = since
        self.until = until
        self.before = before
        self.after = after
        self.ended_before = ended_before


# field of a filter -> what a row must fulfil; `{id}` is the last column of the index in use
CONDITIONS = {
    "before": "{id} < :before",
    "after": "{id} > :after",
    "queue": "j.queue = :queue",
    "kind": "j.kind = :kind",
    "key": "j.key = :key",
    "priority_min": "j.priority >= :priority_min",
    "since": "j.created_at >= :since",
    "until": "j.created_at <= :until",
    "ended_before": "j.finished_at < :ended_before",
}
_TAG = "EXISTS (SELECT 1 FROM job_tags AS t WHERE t.job_id = j.id AND t.key = :k{i}"
TAG_EXISTS = _TAG + ")"
TAG_IS = _TAG + " AND t.value = :v{i})"

BY_ID = "SELECT j.id FROM jobs AS j NOT INDEXED WHERE {where} ORDER BY j.id {order} LIMIT :limit"
BY_KEY = "SELECT j.id FROM jobs AS j INDEXED BY jobs_key WHERE {where} ORDER BY j.id {order} LIMIT :limit"
BY_TAG = """
SELECT j.id FROM job_tags AS d INDEXED BY {index} CROSS JOIN jobs AS j ON j.id = d.job_id
WHERE {where} ORDER BY d.job_id {order} LIMIT :limit
"""
BY_LANE = "SELECT j.id FROM jobs AS j INDEXED BY {index} WHERE {where} ORDER BY j.id {order} LIMIT :limit"

# state -> (index, what makes SQLite accept it: the index's own condition, word for word)
LANE_INDEXES = {
    "queued": ("jobs_queued", "j.state = 'queued'"),
    "running": ("jobs_running", "j.state = 'running'"),
    **{state: ("jobs_ended", f"j.{ddl.ENDED} AND j.state = '{state}'") for state in TERMINAL},
}

LANES = "SELECT queue, state, sum(n) FROM counts WHERE n > 0 GROUP BY queue, state ORDER BY queue, state"
PROBE_KEY = "SELECT count(*) FROM (SELECT 1 FROM jobs INDEXED BY jobs_key WHERE key = :key LIMIT :most)"
PROBE_TAG_EXISTS = """
SELECT count(*) FROM (SELECT 1 FROM job_tags INDEXED BY tags_key WHERE key = :key LIMIT :most)
"""
PROBE_TAG_IS = """
SELECT count(*) FROM (
  SELECT 1 FROM job_tags INDEXED BY tags_value WHERE key = :key AND value = :value LIMIT :most)
"""


def matching(db: Db, wanted: Filter, limit: "int | None" = None, newest_first: bool = False) -> "list[int]":
    """The ids of the jobs a filter matches, ascending unless `newest_first`, at most `limit` of them."""
    if db.conn.in_transaction:
        return _Search(db, wanted, limit, newest_first).ids()
    with db.read():
        return _Search(db, wanted, limit, newest_first).ids()


class _Search:
    """One filter on its way to ids."""

    def __init__(self, db: Db, wanted: Filter, limit: "int | None", newest_first: bool) -> None:
        self.db = db
        self.wanted = wanted
        self.limit = limit
        self.newest_first = newest_first
        self.values: "Row" = {"limit": -1 if limit is None else limit}
        self.conditions: "dict[str, str]" = {}
        for name, text in CONDITIONS.items():
            value = getattr(wanted, name)
            if value is not None:
                self.values[name] = value
                self.conditions[name] = text
        if wanted.states:
            listed = ", ".join(f"'{state}'" for state in wanted.states)
            self.conditions["states"] = f"j.state IN ({listed})"
        for i, (key, value) in enumerate(wanted.tags):
            self.values[f"k{i}"], self.values[f"v{i}"] = key, value
            self.conditions[f"tag{i}"] = (TAG_EXISTS if value is None else TAG_IS).format(i=i)

    def ids(self) -> "list[int]":
        index = self._shortest()
        if index == "lanes":
            return self._merged()
        if index == "key":
            return self._run(BY_KEY, [])
        if index == "id":
            return self._run(BY_ID, [])
        i = int(index[3:])
        if self.wanted.tags[i][1] is None:
            return self._run(BY_TAG, [f"d.key = :k{i}"], index, "tags_key", "d.job_id")
        return self._run(BY_TAG, [f"d.key = :k{i}", f"d.value = :v{i}"], index, "tags_value", "d.job_id")

    def _run(
        self, statement: str, own: "list[str]", covered: str = "", index: str = "", column: str = "j.id"
    ) -> "list[int]":
        """The ids by one index. `own` are the index's conditions, `covered` the one they stand for."""
        texts = own + [text for name, text in self.conditions.items() if name != covered]
        where = " AND ".join(texts).replace("{id}", column) or "1"
        order = "DESC" if self.newest_first else "ASC"
        sql = statement.format(where=where, order=order, index=index)
        return [row[0] for row in self.db.execute(sql, self.values)]

    def _merged(self) -> "list[int]":
        """Every lane and state in question by its own index, merged; a full page bounds what follows."""
        found: "list[int]" = []
        for lane, state, _ in self._lanes():
            index, condition = LANE_INDEXES[state]
            self.values["queue"] = lane
            own = [condition, "j.queue = :queue"]
            if self.limit is not None and len(found) == self.limit:
                self.values["edge"] = found[-1]
                own.append(f"j.id {'>' if self.newest_first else '<'} :edge")
            found += self._run(BY_LANE, own, "states", index)
            found.sort(reverse=self.newest_first)
            if self.limit is not None:
                del found[self.limit :]
        return found

    def _shortest(self) -> str:
        """`key`, `tag0`…, `lanes` or `id`: of the indexes that would do, the one with the fewest rows."""
        wanted = self.wanted
        names = [f"tag{i}" for i in range(len(wanted.tags))]
        if wanted.key is not None:
            names.append("key")
        if wanted.queue is not None or wanted.states or wanted.ended_before is not None:
            names.append("lanes")
        if len(names) < 2:
            return names[0] if names else "id"
        return min(names, key=self._size)

    def _size(self, name: str) -> int:
        values: "Row" = {"most": PROBE, "key": self.wanted.key}
        if name == "lanes":
            return sum(n for _, _, n in self._lanes())
        statement = PROBE_KEY
        if name != "key":
            values["key"], values["value"] = self.wanted.tags[int(name[3:])]
            statement = PROBE_TAG_EXISTS if values["value"] is None else PROBE_TAG_IS
        n: int = self.db.execute(statement, values).fetchone()[0]
        return n if n < PROBE else MANY

    def _lanes(self) -> "list[tuple[str, str, int]]":
        """(lane, state, jobs) of what the counts say could match."""
        states = set(self.wanted.states or LANE_INDEXES) & set(LANE_INDEXES)
        if self.wanted.ended_before is not None:
            states &= set(TERMINAL)
        rows = self.db.execute(LANES).fetchall()
        return [row for row in rows if row[1] in states and self.wanted.queue in (None, row[0])]
