"""Every statement of the store goes by an index, however many jobs there are; what may walk a table is named.

The statements are collected from the modules, so that a new one is judged without being listed anywhere:
it is a constant, and one with gaps says below how they are filled.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from spoolctl import CONTRACT_VERSION, paths, store
from spoolctl.store import bulk, ddl, filter
from spoolctl.store.db import stand_in

SQL = re.compile(r"\s*(WITH|SELECT|UPDATE|DELETE|INSERT)\b")
OURS = re.compile(
    r"\b(FROM|JOIN|INTO|UPDATE)\s+(temp\.)?(jobs|attempts|job_\w+|counts|pruned|workers|meta)\b"
)

MODULES = {
    found.name: importlib.import_module(f"{store.__name__}.{found.name}")
    for found in pkgutil.iter_modules(store.__path__)
}
STATEMENTS = {
    f"{module}.{name}": text
    for module, code in MODULES.items()
    for name, text in vars(code).items()
    if name.isupper() and not name.startswith("_") and isinstance(text, str) and SQL.match(text)
}

# Parts of other statements, never run as they are.
PARTS = {"attempts.SELECT", "events.SELECT", "jobs.SELECT", "workers.SELECT", "claim.WALK"}

# Statements with gaps: what stands in each. Those of `filter` are made by the searches below.
FILLED = dict.fromkeys(
    ("awaited.STATES", "awaited.HOLDERS", "listing.BY_IDS", "listing.TAGS_BY_IDS", "select.EXISTING",
     "words.JOBS", "words.KEYS", "words.TAGS"),
    "1, 2",
)  # fmt: skip
SEARCHES = {"filter.BY_ID", "filter.BY_KEY", "filter.BY_TAG", "filter.BY_LANE"}

# Tables and steps of a plan that do not grow with the jobs.
SMALL = {
    "workers": "one row a process",
    "counts": "one row a lane, kind and state",
    "meta": "two rows",
    "sqlite_master": "the schema",
    "sqlite_sequence": "one row a table",
    "step": "the distinct priorities of a lane",
    "CONSTANT": "the start of that walk",
    "staged": "the lines of one call",
    "staged_tags": "the lines of one call",
    "staged_held": "the lines of one call",
    "staged_repeated": "the lines of one call",
    "staged_shapes": "what the lines of one call have in common",
    "staged_jobs": "the lines of one call",
    "s": "the lines of one call, in that view",
    "f": "the lines of one call, numbered",
}
RUNNING = " USING INDEX jobs_running"  # walks what runs at this moment, and nothing else

# statement -> (how its plan begins the walk, why it may)
WALKS = {
    "counts.DEAD": ("SCAN jobs USING INDEX jobs_dead", "the last to die come first, and a limit ends it"),
    "health.RECOUNT": ("SCAN jobs", "doctor --deep counts the rows, for a bounded time"),
}


def plan(db, sql):
    """The steps of a plan, as every SQLite tells them."""
    values = dict.fromkeys(re.findall(r":(\w+)", sql), 1)
    places = [1] * sql.count("?")
    found = db.execute(f"EXPLAIN QUERY PLAN {sql}", places or values)
    return [re.sub(r"\b(TABLE|SUBQUERY) ", "", row[3]) for row in found]


def walks(steps, aliases):
    """The steps that visit every row of something that grows."""
    found = []
    for step in steps:
        name = step.split()[1] if step.startswith("SCAN") else ""
        if not name or aliases.get(name, name) in SMALL or RUNNING in step:
            continue
        if name.isdigit() or name.startswith("(subquery"):
            continue  # its rows are those of steps that are judged themselves
        found.append(step)
    return found


def aliases_in(sql):
    return {alias: table for table, alias in re.findall(r"\b(?:FROM|JOIN)\s+(\w+)\s+(?:AS\s+)?(\w+)\b", sql)}


@pytest.fixture
def empty():
    with closing(sqlite3.connect(":memory:")) as db:
        ddl.create(db.execute, CONTRACT_VERSION)
        for sql in (*bulk.STAGES, bulk.KEY_INDEX):
            db.execute(sql)
        yield db


@pytest.mark.parametrize("name", sorted(set(STATEMENTS) - PARTS - SEARCHES))
def test_a_statement_goes_by_an_index(name, empty):
    sql = STATEMENTS[name]
    if "{" in sql:
        assert name in FILLED, f"{name} has gaps: say in FILLED what stands there, or search for it"
        sql = sql.format(FILLED[name])
    found = walks(plan(empty, sql), aliases_in(sql))
    allowed = WALKS.get(name)
    if allowed is None:
        assert not found, f"{name} walks a table: let it go by an index, or say in WALKS why it may"
    else:
        assert [step.startswith(allowed[0]) for step in found] == [True], (found, "WALKS is out of date")


def test_the_tables_above_name_only_what_is_there():
    for table in (PARTS, FILLED, SEARCHES, WALKS):
        assert set(table) <= set(STATEMENTS)


def test_no_statement_about_our_tables_hides_in_a_function():
    """There it would not be collected."""
    hidden = []
    for module, code in MODULES.items():
        tree = ast.parse(Path(str(code.__file__)).read_text())
        for function in ast.walk(tree):
            if isinstance(function, (ast.FunctionDef, ast.Lambda)):
                hidden += [
                    f"{module}:{node.lineno}"
                    for node in ast.walk(function)
                    if isinstance(node, ast.Constant) and isinstance(node.value, str)
                    if SQL.match(node.value) and OURS.search(node.value) and module != "ddl"
                ]
                # A private one is a part of others, which are collected: not to be run itself.
                hidden += [
                    f"{module}:{node.lineno}"
                    for node in ast.walk(function)
                    if isinstance(node, ast.Name) and node.id.startswith("_") and node.id.isupper()
                    if SQL.match(str(getattr(code, node.id, "")))
                ]
    assert not hidden


# --- what `list`, `prune` and the selectors search by -----------------------------------------------------

STATE_SETS = [[state] for state in sorted(filter.LANE_INDEXES)] + [["dead", "queued"]]
FLAT = {
    "nothing": [{}],
    "state": [{"states": states} for states in STATE_SETS],
    "queue": [{"queue": "a"}],
    "state and queue": [{"states": states, "queue": "a"} for states in STATE_SETS],
    "tag": [{"tags": [("k", "v")]}, {"tags": [("k", None)]}],
    "key": [{"key": "k"}],
    "what prune deletes": [
        {"states": ["done"], "ended_before": 9.0},
        {"states": ["done"], "ended_before": 9.0, "tags": [("k", None)]},
    ],
}  # fmt: skip


@pytest.fixture
def filled(tmp_path):
    """Lanes and states for a search to go through."""
    db = stand_in(paths.Spool(str(tmp_path / "queue.db"), "flag"))
    states = sorted(filter.LANE_INDEXES)
    db.conn.executemany(
        "INSERT INTO counts VALUES (?, 'command', ?, 1)", [(lane, s) for lane in "ab" for s in states]
    )
    yield db
    db.close()


@pytest.mark.parametrize("edge", [{}, {"before": 7}, {"after": 7}])
@pytest.mark.parametrize("kind", FLAT)
def test_a_search_goes_by_the_index_of_what_it_looks_for(kind, edge, filled):
    """Each ends in the id: what is found is in order already, and a limit ends it."""
    for conditions in FLAT[kind]:
        asked: list[str] = []
        filled.conn.set_trace_callback(asked.append)
        filter.matching(filled, filter.Filter(**conditions, **edge), 3, newest_first=True)
        filled.conn.set_trace_callback(None)
        asked = [sql for sql in asked if SQL.match(sql)]
        assert asked
        for sql in asked:
            steps = plan(filled.conn, sql)
            found = walks(steps, aliases_in(sql))
            if kind == "nothing" and not edge:
                assert [step[:6] for step in found] == ["SCAN j"], steps  # the newest rows themselves
            else:
                assert not found, (sql, steps)
            if "counts" not in sql:
                assert not [step for step in steps if "TEMP B-TREE" in step], (sql, steps)
