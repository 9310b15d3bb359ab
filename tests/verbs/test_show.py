"""show: everything that is known of one job, while it waits, runs and after it ended."""

from __future__ import annotations

import os

from support import wait_until


def test_a_waiting_job_shows_what_add_was_told(spool):
    (spool.path / ".spoolctl").mkdir(mode=0o700)
    (spool.path / ".spoolctl" / "config.json").write_text('{"capture_env": ["COLOUR"]}')
    spool.add(
        "--env", "B=2", "--env", "A=\udcff", "--tag", "run=7", "--note", "why", "--key", "k",
        "--max-output", "1k", "--keep-children", "--timeout", "none", "--max-crashes", "none",
        "--backoff-jitter", "0.5", "--queue", "q", "--", "echo", "a b", env={"COLOUR": "blue"},
    )  # fmt: skip
    shown = spool.json("show", "key:k")
    job = shown["job"]
    wanted = {
        "argv": ["echo", "a b"], "state": "queued", "queue": "q", "tags": {"run": "7"}, "note": "why",
        "idempotency_key": "k", "env": {"A": "\ufffd", "B": "2"}, "captured_env": {"COLOUR": "blue"},
        "backoff": {"base": 2, "factor": 2, "max": 60, "jitter": 0.5}, "max_output_bytes": 1024,
        "keep_children": True, "timeout_seconds": None, "max_crashes": None, "cwd": str(spool.path),
        "locked_by": None, "locked_pid": None, "locked_at": None, "heartbeat_at": None, "ending": None,
        "cancel_requested_at": None,
    }  # fmt: skip
    assert {name: job[name] for name in wanted} == wanted
    assert shown["attempts"] == []
    assert [event["event"] for event in shown["events"]] == ["added"]


def test_a_running_job_shows_who_holds_it_and_an_ended_one_how_it_went(spool):
    spool.add("--max-retries", "0", "-c", "echo out; while [ ! -e go ]; do sleep 0.02; done; exit 4")
    worker = spool.start("work", "--once", "--worker-id", "w one")
    spool.wait_for(1, "running")
    job = wait_until(lambda: (found := spool.show(1))["attempts"][0]["pid"] and found)["job"]
    assert (job["locked_by"], job["locked_pid"]) == ("w one", worker.pid)
    assert abs(job["heartbeat_at"] - job["locked_at"]) < 10
    assert job["locked_at"] == job["started_at"]
    assert "held by     w one" in spool.run("show", "1", check=0).text

    (spool.path / "go").touch()
    assert worker.wait(20) == 0
    shown = spool.show(1)
    assert shown["job"]["locked_by"] is None and shown["job"]["heartbeat_at"] is None
    attempt = shown["attempts"][0]
    assert (attempt["state"], attempt["exit_code"], attempt["error"]) == ("failed", 4, "exit 4")
    assert attempt["worker_id"] == "w one" and attempt["worker_pid"] == worker.pid
    assert os.path.isabs(attempt["stdout_path"])
    with open(attempt["stdout_path"]) as file:
        assert file.read() == "out\n"
    events = shown["events"]
    assert [event["event"] for event in events] == ["added", "claimed", "failed", "dead"]
    assert events[2]["detail"] == "exit 4"
    text = spool.run("show", "1", check=0).text
    assert "exit 4" in text and "dead" in text


def test_a_key_names_the_newest_job_in_any_lane_or_in_the_one_given(spool):
    a = spool.add("--key", "k", "--queue", "a", "--", "true")
    b = spool.add("--key", "k", "--queue", "b", "--", "true")
    assert spool.json("show", "key:k")["job"]["id"] == b
    assert spool.json("show", "key:k", "--queue", "a")["job"]["id"] == a
    missing = spool.run("show", "key:k", "--queue", "c", "--json", check=1)
    assert missing.error["code"] == "NOT_FOUND" and missing.error["detail"] == {"missing": ["key:k"]}
    assert spool.run("show", "99", "--json", check=1).error["detail"] == {"missing": [99]}
    assert spool.run("show", "1-2", "--json", check=1).code == "INVALID_INPUT"


def test_the_text_escapes_what_a_job_brings(spool):
    spool.add(
        "--note", "a\nb\x1b[2J", "--env", "X=\x07", "--tag", "t=\u2028", "--", "printf", "\x1b[31m", "a\nb"
    )
    text = spool.run("show", "1", check=0).text
    assert "\x1b" not in text and "\x07" not in text and "\u2028" not in text
    assert "a\\nb\\x1b[2J" in text
