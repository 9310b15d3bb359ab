"""Growth: the same calls on a million jobs and on a thousand; and pruning the oldest of a million.

Each sample is a pair, one right after the other, whose order changes from round to round. A claim is `work
--once` of a due job whose priority is below that of all that wait; `drain` runs 200 jobs, so that the
claims count and the start of the process does not.
"""

import os
import sqlite3
import time
from contextlib import closing

from .many import STEP, place_with
from .probe import Probe
from .tools import Unmeasured

SMALL = 1000
LISTS = {
    "list": (),
    "list_state": ("--state", "{state}"),
    "list_queue": ("--queue", "default"),
    "list_both": ("--queue", "default", "--state", "{state}"),
    "list_tag": ("--tag", "team=t1"),
    "list_key": ("--key", "key-500"),
}


def finished(bench):
    _growth(bench, "finished", "done")


def delayed(bench):
    _growth(bench, "delayed", "queued")
    for place in bench.kept.pop("delayed").values():
        bench.leave(place)


def big(bench, kind, tool):
    """The place with a million jobs, made once a run."""
    kept = bench.kept.setdefault(kind, {})
    if tool.name not in kept:
        kept[tool.name] = place_with(bench, tool, kind, 200_000 if bench.quick else 1_000_000)
    return kept[tool.name]


def _growth(bench, kind, state):
    pairs = [(place_with(bench, tool, kind, SMALL), big(bench, kind, tool)) for tool in bench.tools]
    for pair in pairs:
        for place in pair:
            place.worker("-q", "other")
    verbs = [name for name in VERBS if f"{kind}_{name}" in bench.wanted]
    for number in range(-1, bench.times(15, 4)):
        for verb in verbs:
            for pair in pairs:
                took = {place: VERBS[verb](place, state) for place in (pair if number % 2 else pair[::-1])}
                if number >= 0:  # the first is for the caches
                    bench.board.note(f"{kind}_{verb}", pair[0].tool, took[pair[1]] / took[pair[0]])
    for small, large in pairs:
        if bench.quick:
            bench.board.fact(f"{kind}_{verbs[0]}", small.tool, jobs_in_a_quick_run=large.jobs)
        bench.leave(small)


def _claim(place, state):
    place.add("--priority", "-100", "--", "true")
    return place.seconds("work", "--once", "--json")


def _drain(place, state):
    place.fill(200)
    return place.seconds("work", "--drain", "--json")


def _cancel(place, state):
    return place.seconds("cancel", place.add("--after", "1d", "--", "true"), "--json")


def _listing(words):
    return lambda place, state: place.seconds("list", "--json", *(word.format(state=state) for word in words))


VERBS = {
    "add": lambda place, state: place.seconds("add", "--after", "1d", "--", "true"),
    "status": lambda place, state: place.seconds("status", "--json"),
    **{name: _listing(words) for name, words in LISTS.items()},
    "show": lambda place, state: place.seconds("show", str(place.before + place.jobs // 2), "--json"),
    "claim": _claim,
    "drain": _drain,
    "cancel": _cancel,
}


# --- prune ------------------------------------------------------------------------------------------------


def prune(bench):
    """A tenth of the jobs twice: with a probe of the write lock, then beside a worker that is busy."""
    for tool in bench.tools:
        place = big(bench, "finished", tool)
        tenth = place.jobs // 10
        _captures(place, tenth)
        place.worker("-q", "other")
        probe = Probe(bench, place)
        took, gone = _prune(place, tenth)
        waits = probe.stop()
        for wait in waits:
            bench.board.note("prune_lock", tool, wait * 1000)
        bench.board.note("prune_rate", tool, gone / took)
        if {"prune_beside", "prune_pause"} & set(bench.wanted):
            _beside(bench, place, tenth)
        bench.crew.end()
        bench.leave(bench.kept["finished"].pop(tool.name))


def _captures(place, jobs):
    """Output of every tenth job that will go, as a worker leaves it."""
    for job in range(place.before + 1, place.before + jobs, 10):
        folder = os.path.join(os.path.dirname(place.db), "output", str(job), "1")
        os.makedirs(folder, 0o700)
        for stream in ("stdout", "stderr"):
            os.close(os.open(os.path.join(folder, stream), os.O_CREAT | os.O_WRONLY, 0o600))


def _prune(place, upto):
    """(seconds, jobs) of pruning the `upto` oldest that there were."""
    age = (place.jobs - upto + 100) * STEP + time.time() - place.filled
    began = time.perf_counter()
    words = ("--older-than", f"{age:.0f}s", "--state", "done,dead,canceled", "--yes")
    answer = place.ask("prune", *words)
    took = time.perf_counter() - began
    if not 0.9 < answer["deleted_jobs"] / (place.jobs // 10) < 1.1:
        raise Unmeasured(f"prune deleted {answer['deleted_jobs']} jobs")
    return took, answer["deleted_jobs"]


def _beside(bench, place, tenth):
    place.ask("add", "--from", "-", "-q", "busy", feed='{"argv":["true"]}\n' * 40_000)
    place.worker("-q", "busy")
    time.sleep(1)
    first, began = _last_event(place), time.time()
    time.sleep(1 if bench.quick else 3)
    middle = time.time()
    _prune(place, 2 * tenth)
    over = time.time()
    ends = _ends(place, first)
    alone = [at for at in ends if at < middle]
    beside = [at for at in ends if middle <= at < over]
    if not alone:
        raise Unmeasured("the worker ended no job before the prune")
    rate = len(alone) / (middle - began)
    pauses = [after - before for before, after in zip([middle, *beside], [*beside, over])]
    bench.board.note("prune_beside", place.tool, len(beside) / (over - middle) / rate)
    bench.board.note("prune_pause", place.tool, max(pauses) * 1000)


def _ends(place, after):
    """When jobs have succeeded, by the events after an id."""
    sql = "SELECT at FROM job_events WHERE id > ? AND event = 'succeeded' ORDER BY id"
    with closing(sqlite3.connect(place.db)) as conn:
        return [row[0] for row in conn.execute(sql, [after])]


def _last_event(place):
    with closing(sqlite3.connect(place.db)) as conn:
        return conn.execute("SELECT max(id) FROM job_events").fetchone()[0]
