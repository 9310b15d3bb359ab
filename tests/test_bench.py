"""scripts/bench.py measures what it is asked for, says it in its one form, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
from support import ROOT, clean_env, run, wait_until

FIELDS = {
    "metric", "tool", "what", "value", "unit", "sign", "bar", "spread", "samples", "met", "facts",
}  # fmt: skip


@pytest.fixture
def parts(monkeypatch):
    """The modules of the script, as it imports them."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    from bench_parts import bars, many

    return bars, many


def bench(folder, *words):
    """The script with this interpreter as it is, in one temporary folder."""
    argv = [sys.executable, str(ROOT / "scripts" / "bench.py"), "--python", sys.executable]
    argv += ["--folder", str(folder), "--quick", *words]
    return subprocess.Popen(argv, env=clean_env(), stdin=subprocess.DEVNULL, stdout=-1, stderr=-1, text=True)


def told(lines):
    return [json.loads(line) for line in lines]


def test_each_metric_asked_for_is_a_line_of_json_after_the_machines_own_figures(tmp_path, parts):
    bars, _ = parts
    with bench(tmp_path, "--json", "--rounds", "2", "--only", "work_once,status") as process:
        out, err = process.communicate(timeout=100)
    assert process.returncode == 0, err
    machine, *rows = told(out.splitlines())
    assert {"cores", "python", "sqlite", "file system", "durable loop, jobs/s"} < set(machine["machine"])
    assert [row["metric"] for row in rows] == ["status", "work_once"]
    for row in rows:
        assert set(row) == FIELDS
        metric = bars.BY_NAME[row["metric"]]
        assert (row["bar"], row["sign"], row["tool"], row["samples"]) == (metric.bar, metric.sign, "ours", 2)
        assert row["spread"][0] <= row["value"] <= row["spread"][1]
        assert row["met"] is (row["value"] <= row["bar"])
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_is_no_metric_is_refused(tmp_path):
    with bench(tmp_path, "--only", "status,speed") as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, "")
    assert "'speed'" in err and "work_once" in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_interrupted_ends_its_workers_and_removes_its_folder(tmp_path, number):
    with bench(tmp_path, "--json", "--only", "idle") as process:
        try:
            assert process.stdout is not None
            assert "machine" in told([process.stdout.readline()])[0]
            (folder,) = tmp_path.iterdir()
            place = folder / "1"

            def workers():
                ready = (place / ".spoolctl" / "queue.db").exists()
                return run("status", "--json", cwd=place).data["workers"] if ready else []

            wait_until(workers, 60, "a worker")
            pid = workers()[0]["pid"]
            process.send_signal(number)
            process.wait(60)
        finally:
            process.kill()
    assert process.returncode == 128 + number
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_an_interruption_ends_the_making_of_its_environment_too(tmp_path):
    argv = [sys.executable, str(ROOT / "scripts" / "bench.py"), "--folder", str(tmp_path), "--only", "status"]
    with subprocess.Popen(argv, env=clean_env(), stdin=subprocess.DEVNULL) as process:
        try:
            wait_until(lambda: any(tmp_path.glob("*/venv/lib*/*/site-packages/pip")), 60, "what venv starts")
            process.terminate()
            process.wait(60)
        finally:
            process.kill()
    assert started(tmp_path) == ""
    assert list(tmp_path.iterdir()) == []


def started(folder):
    """The command lines that name a folder, but for the script's own."""
    lines = subprocess.run(
        ["ps", "-A", "-ww", "-o", "args="], capture_output=True, text=True
    ).stdout.splitlines()
    return "\n".join(line for line in lines if str(folder) in line and "bench.py" not in line)


def test_bars_stand_once_and_say_when_they_are_met(parts):
    bars, _ = parts
    assert len(bars.BY_NAME) == len(bars.METRICS)
    for path in sorted((ROOT / "scripts").glob("bench*/*.py")):
        if path.name != "bars.py":
            text = path.read_text()
            assert "at_most" not in text and "at_least" not in text, path.name
    for metric in bars.METRICS:
        if metric.bar is not None:
            better = -1 if metric.sign == "<=" else 1
            assert metric.met(metric.bar + better) and not metric.met(metric.bar - better), metric.name


def test_a_multiplied_queue_is_as_sound_as_one_that_the_tool_made(spool, parts):
    _, many = parts
    done, dead = spool.add(), spool.add("--max-retries", "0", "--", "false")
    spool.work()
    later = spool.add("--after", "1d", "--", "true")
    before = many.fill(str(spool.db), {done: 40, dead: 10}, 300)
    assert before == later
    assert many.fill(str(spool.db), {later: 50}, 100) == before + 300
    assert spool.json("doctor", "--deep")["ready"]
    counts = spool.json("status")["counts"]
    assert (counts["done"], counts["dead"], counts["queued"]) == (241, 61, 101)
    found = spool.json("list", "--key", "key-7", "--state", "done")["jobs"]
    assert [job["tags"] for job in found] == [{"team": "t1"}]
    shown = spool.show(found[0]["id"])
    assert [event["event"] for event in shown["events"]] == ["added", "claimed", "succeeded"]
    assert [attempt["state"] for attempt in shown["attempts"]] == ["succeeded"]
    waiting = spool.json("list", "--state", "queued", "--limit", "0")["jobs"]
    assert {job["priority"] for job in waiting} == {-2, -1, 0, 1, 2}
