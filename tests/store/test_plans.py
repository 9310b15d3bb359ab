"""Statements that a worker runs again and again go by an index, however many jobs there are."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing

import pytest

from spoolctl import CONTRACT_VERSION
from spoolctl.store import attempts, claim, control, ddl, owners, settle, workers

HOT = {
    f"{module.__name__.rpartition('.')[2]}.{name}": sql
    for module in (attempts, claim, control, owners, settle, workers)
    for name, sql in vars(module).items()
    if name.isupper() and not name.startswith("_") and isinstance(sql, str)
    if re.match(r"\s*(SELECT|UPDATE|DELETE)\b", sql) and name != "SELECT"
}


@pytest.mark.parametrize("name", HOT)
def test_no_statement_of_a_worker_walks_the_jobs_that_do_not_run(name):
    sql = HOT[name]
    with closing(sqlite3.connect(":memory:")) as db:
        ddl.create(db.execute, CONTRACT_VERSION)
        values = dict.fromkeys(re.findall(r":(\w+)", sql), 1)
        plan = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {sql}", values)]
    walks = [
        step
        for step in plan
        if step.startswith("SCAN") and not step.startswith(("SCAN workers", "SCAN CONSTANT"))
    ]
    assert all(" USING INDEX jobs_running" in step for step in walks), plan
