"""What the tool is for: hundreds of real commands of every kind through the installed command, run by two
workers at once, and every one of them explained afterwards by what any other process can read.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support import ROOT, Answer, checked, clean_env, processes_of

PYTHON = sys.executable
TAIL = 2048  # bytes of output that feedback shows

UNITTESTS = """
import unittest
class Sums(unittest.TestCase):
    def test_a_sum(self): self.assertEqual(1 + 1, 2)
    def test_another(self): self.assertEqual(sum(range(101)), 5050)
    def test_the_last(self): self.assertEqual(2 + 2, {last})
if __name__ == "__main__":
    unittest.main()
"""

FLAKY = (
    "n=$(cat count-{0} 2>/dev/null || echo 0); n=$((n + 1)); echo $n >count-{0}; echo try $n; [ $n -gt 2 ]"
)
ROUND_TRIP = "gzip -9 -c {0} >{0}.gz && gzip -t {0}.gz && gunzip -c {0}.gz | cmp - {0} && echo same"


class Queue:
    """Calls of the installed command in one directory, and what is expected of each job."""

    def __init__(self, command: Path, folder: Path) -> None:
        self.command = command
        self.folder = folder
        self.env = clean_env()
        del self.env["PYTHONPATH"]  # what is installed is meant
        self.expected: dict[int, dict[str, Any]] = {}

    def raw(self, *words: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
        call = [str(self.command), *words]
        return subprocess.run(
            call, cwd=self.folder, env=self.env, capture_output=True, timeout=120, **options
        )

    def json(self, *words: str, **options: Any) -> Answer:
        words = (words[0], "--json", *words[1:])
        done = self.raw(*words, **options)
        return checked(Answer(list(words), done.returncode, done.stdout, done.stderr), self.env, check=0)

    def add(self, *words: str, **expected: Any) -> int:
        job = int(self.json("add", *words).data["job_id"])
        self.expects(job, **expected)
        return job

    def expects(self, job: int, **expected: Any) -> None:
        """What becomes of a job: `attempts` by their states, and the last one's output, exactly."""
        usual = {"state": "done", "attempts": ["succeeded"], "exit_code": 0, "reason": None, "signal": None}
        self.expected[job] = usual | {"stdout": b"", "stderr": b""} | expected

    def dead(self, *words: str, attempts: tuple[str, ...] = ("failed",), **expected: Any) -> int:
        return self.add(*words, state="dead", attempts=list(attempts), **expected)


# --- the input --------------------------------------------------------------------------------------------


def fill(queue: Queue) -> None:
    """At least 200 jobs of mixed kinds."""
    files(queue)
    scripts(queue)
    pipelines(queue)
    failures(queue)
    awkward_output(queue)
    surroundings(queue)
    many_at_once(queue)


def files(queue: Queue) -> None:
    draw = random.Random(7)
    for n in range(60):
        name = f"file {n}.txt" if n % 5 == 0 else f"file-{n}.txt"
        words = draw.choices(("alpha", "beta", "gamma", "δ", "\n"), k=draw.randrange(1, 20_000))
        (queue.folder / name).write_text(" ".join(words), encoding="utf-8")
        if n < 20:
            queue.add("--", "gzip", "-k", name)
        else:
            queue.add("-c", ROUND_TRIP.format(shlex.quote(name)), stdout=b"same\n")


def scripts(queue: Queue) -> None:
    (queue.folder / "test_good.py").write_text(UNITTESTS.format(last=4))
    (queue.folder / "test_bad.py").write_text(UNITTESTS.format(last=5))
    for n in range(8):
        queue.add("--note", f"suite {n}", "--", PYTHON, "test_good.py", stderr=("Ran 3 tests", "OK"))
    bad = ("Ran 3 tests", "FAILED (failures=1)")
    queue.dead("--max-retries", "0", "--", PYTHON, "-m", "unittest", "-q", "test_bad", exit_code=1,
               reason="process_exit", stderr=bad)  # fmt: skip


def pipelines(queue: Queue) -> None:
    for n in range(1, 41):
        queue.add("-c", f"seq 1 {n * 25} | sort -rn | head -1 | tr -d '\\n'", stdout=str(n * 25).encode())


def failures(queue: Queue) -> None:
    soon = ("--backoff-base", "0.1", "--backoff-factor", "1")
    for n in range(15):
        queue.add(*soon, "-c", FLAKY.format(n), attempts=["failed", "failed", "succeeded"], stdout=b"try 3\n")
    for _ in range(5):
        queue.dead("--timeout", "0.5", "--max-retries", "0", "--", "sleep", "600", attempts=("timed_out",),
                   exit_code=-15, signal="SIGTERM", reason="timeout")  # fmt: skip
    queue.dead(*soon, "--timeout", "2", "--max-retries", "1", "-c", "echo begun; sleep 600",
               attempts=("timed_out", "timed_out"), exit_code=-15, signal="SIGTERM", reason="timeout",
               stdout=b"begun\n")  # fmt: skip
    for _ in range(3):
        queue.dead(
            "--max-retries", "0", "--", "no-such-command-here", "x", exit_code=None, reason="spawn_failed"
        )
    queue.dead("--max-retries", "0", "--cwd", "no/such/directory", "--", "true", exit_code=None,
               reason="spawn_failed")  # fmt: skip
    for code in (1, 2, 126, 127, 255):
        queue.dead(*soon, "--max-retries", "2", "-c", f"echo out; echo err >&2; exit {code}",
                   attempts=("failed",) * 3, exit_code=code, reason="process_exit", stdout=b"out\n",
                   stderr=b"err\n")  # fmt: skip
    for _ in range(3):
        queue.dead("--max-retries", "0", "-c", "kill -9 $$", exit_code=-9, signal="SIGKILL",
                   reason="process_exit")  # fmt: skip


def awkward_output(queue: Queue) -> None:
    flood = "head -c {0} /dev/zero | tr '\\0' e >&2; echo {0}"
    for n in range(5):
        size = 2_000_000 + n * 500_000
        queue.add("-c", flood.format(size), stdout=f"{size}\n".encode(), stderr=b"e" * size)
    for n in range(10):
        queue.add("--", "printf", rf"a\{n + 200:o}\377b\0c\n", stdout=b"a" + bytes([n + 200]) + b"\xffb\0c\n")
    for _ in range(2):
        queue.dead("--max-retries", "0", "--max-output", "100k", "--", "yes", exit_code=-15,
                   reason="output_limit", stdout=None, signal="SIGTERM")  # fmt: skip
    for _ in range(3):
        queue.add("-c", "sleep 600 & echo left something", stdout=b"left something\n", left=True)


def surroundings(queue: Queue) -> None:
    for n in range(20):
        folder = queue.folder / f"sub {n}"
        folder.mkdir()
        words = ("--key", f"key {n}", "--env", f"VALUE=v {n}", "--cwd", folder.name, "--tag", f"n={n % 4}",
                 "--priority", str(n - 10), "-c", 'echo "$VALUE"; pwd')  # fmt: skip
        job = queue.add(*words, stdout=f"v {n}\n{folder}\n".encode())
        again = queue.json("add", *words)
        assert (again.data["job_id"], again.data["deduplicated"]) == (job, True)
        assert "IDEMPOTENCY_METADATA_DIFFERS" not in again.warnings
    for _ in range(2):
        queue.add("--at", "2001-02-03T04:05Z", "-c", "echo overdue", stdout=b"overdue\n")


def many_at_once(queue: Queue) -> None:
    lines = [f"echo line {n}" if n % 2 else json.dumps({"argv": ["echo", "line", str(n)]}) for n in range(40)]
    data = queue.json("add", "--from", "-", "--tag", "bulk=1", input="\n".join(lines).encode()).data
    assert data["added"] == 40
    for n, job in enumerate(data["job_ids"]):
        queue.expects(job, stdout=f"line {n}\n".encode())


# --- the run, once for all tests --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The launcher of an installed package: this environment's, or one of a fresh environment."""
    here = Path(sys.executable).with_name("spoolctl")
    if here.exists():
        return here
    place = tmp_path_factory.mktemp("installed")
    source = place / "source"
    source.mkdir()
    for name in ("pyproject.toml", "LICENSE", "README.md"):
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "spoolctl", source / "spoolctl", ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run([sys.executable, "-m", "venv", place / "venv"], check=True, timeout=120)
    call = [place / "venv/bin/python", "-m", "pip", "install", "-q", "--disable-pip-version-check", source]
    done = subprocess.run(call, capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        pytest.skip(f"the package cannot be installed here: {done.stderr[-300:]}")
    return place / "venv/bin/spoolctl"


@pytest.fixture(scope="module")
def ran(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """The queue after two workers have drained it: `queue`, `drained` (their answers), `jobs`, `shown`."""
    folder = tmp_path_factory.mktemp("real")
    queue = Queue(installed, folder)
    fill(queue)
    call = [str(installed), "work", "-j", "2", "--drain", "--json"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    workers = [subprocess.Popen(call, cwd=folder, env=queue.env, **pipes) for _ in range(2)]
    drained = []
    for worker in workers:
        out, err = worker.communicate(timeout=150)
        drained.append(checked(Answer(call[1:], worker.returncode, out, err), queue.env, check=0).data)
    jobs = paged(queue)
    shown = {job["id"]: queue.json("show", str(job["id"])).data for job in jobs}
    return SimpleNamespace(queue=queue, drained=drained, jobs=jobs, shown=shown)


def paged(queue: Queue) -> list[dict[str, Any]]:
    """All jobs, newest first, fifty at a time."""
    found: list[dict[str, Any]] = []
    more: tuple[str, ...] = ()
    while True:
        answer = queue.json("list", "--limit", "50", *more)
        found += answer.data["jobs"]
        if not answer.meta["pagination"]["truncated"]:
            return found
        more = ("--before", str(answer.meta["pagination"]["cursor"]))


pytestmark = pytest.mark.timeout(400)


# --- every job is explained -------------------------------------------------------------------------------


def test_at_least_two_hundred_commands_were_queued_and_the_pages_hold_each_once(ran):
    assert len(ran.queue.expected) >= 200
    assert [job["id"] for job in ran.jobs] == sorted(ran.queue.expected, reverse=True)


def test_both_workers_drained_the_lane(ran):
    for data in ran.drained:
        assert (data["drained"], data["unsettled"]) == (True, [])
        assert data["executed"] > 0
    wanted = list(ran.queue.expected.values())
    assert sum(data["executed"] for data in ran.drained) == sum(len(one["attempts"]) for one in wanted)
    assert sum(data["dead"] for data in ran.drained) == sum(one["state"] == "dead" for one in wanted)
    assert sum(data["succeeded"] for data in ran.drained) == sum(one["state"] == "done" for one in wanted)


def test_the_status_adds_up(ran):
    data = ran.queue.json("status", "--limit", "100").data
    dead = sorted(job for job, one in ran.queue.expected.items() if one["state"] == "dead")
    counts = dict.fromkeys(data["counts"], 0) | {
        "done": len(ran.queue.expected) - len(dead),
        "dead": len(dead),
    }
    assert data["counts"] == counts
    assert data["queues"]["default"]["counts"] == counts
    assert (data["workers"], data["running_jobs"], data["scheduled"], data["orphaned"]) == ([], [], 0, 0)
    assert sorted(one["id"] for one in data["recent_dead"]) == dead


def test_every_job_ended_as_its_command_says(ran):
    for job in ran.jobs:
        wanted, shown = ran.queue.expected[job["id"]], ran.shown[job["id"]]
        assert job["state"] == wanted["state"], shown
        assert [a["state"] for a in shown["attempts"]] == wanted["attempts"], shown
        assert job["attempts"] == sum(state != "succeeded" for state in wanted["attempts"]), shown
        assert (job["crashes"], job["last_failure_reason"]) == (0, wanted["reason"]), shown
        ended = [event for event in shown["events"] if event["event"] == "succeeded"]
        if wanted["state"] == "done":
            detail = ended[0]["detail"]
            assert detail == ("ended 1 left processes" if "left" in wanted else None), shown


def test_no_attempt_overlapped_another_of_its_job(ran):
    for shown in ran.shown.values():
        attempts = shown["attempts"]
        assert [a["attempt_no"] for a in attempts] == list(range(1, len(attempts) + 1))
        moments = [moment for a in attempts for moment in (a["started_at"], a["finished_at"])]
        assert moments == sorted(moments), shown
        assert shown["job"]["finished_at"] == moments[-1]


AFTER = {
    "added": {None: "queued"},
    "claimed": {"queued": "running"},
    "succeeded": {"running": "done"},
    "failed": {"running": "queued"},
    "timed_out": {"running": "queued"},
    "dead": {"queued": "dead"},  # of the event before it, in one transaction
}


def test_the_ledger_tells_every_jobs_story_to_its_end(ran):
    call = ("events", "--follow", "--json", "--since-id", "0", "--idle-timeout", "1")
    done = ran.queue.raw(*call)
    frames = checked(Answer(list(call), done.returncode, done.stdout, done.stderr), {}, check=0).frames
    assert frames.pop() == {"control": {"type": "end", "reason": "idle_timeout"}}
    assert [frame["id"] for frame in frames] == sorted({frame["id"] for frame in frames})
    states: dict[int, str | None] = dict.fromkeys(ran.queue.expected)
    last: dict[int, dict[str, Any]] = {}
    for frame in frames:
        job, event = frame["job_id"], frame["event"]
        assert states[job] in AFTER[event], (frame, states[job])
        states[job] = AFTER[event][states[job]]
        if event == "dead":
            before = last[job]
            assert (before["event"] in ("failed", "timed_out"), before["at"]) == (True, frame["at"])
        last[job] = frame
    assert states == {job: one["state"] for job, one in ran.queue.expected.items()}
    for job, shown in ran.shown.items():
        own = [{k: v for k, v in frame.items() if k not in ("id", "job_id")} for frame in frames
               if frame["job_id"] == job]  # fmt: skip
        assert own == shown["events"]


def test_feedback_of_a_hundred_at_a_time_gives_every_verdict_and_the_outputs_are_exact(ran):
    ids = sorted(ran.queue.expected)
    seen = []
    for at in range(0, len(ids), 100):
        batch = [str(job) for job in ids[at : at + 100]]
        for verdict in ran.queue.json("feedback", *batch, "--tail-bytes", str(TAIL)).data["jobs"]:
            wanted = ran.queue.expected[verdict["job_id"]]
            seen.append(verdict["job_id"])
            assert (verdict["state"], verdict["terminal"]) == (wanted["state"], True)
            assert verdict["succeeded"] is (wanted["state"] == "done")
            assert verdict["attempts_total"] == len(wanted["attempts"])
            assert (verdict["failure_reason"], verdict["signal"]) == (wanted["reason"], wanted["signal"]), (
                verdict
            )
            assert verdict["exit_code"] == wanted["exit_code"], verdict
            next_line = f"spoolctl output {verdict['job_id']}" if wanted["state"] == "dead" else None
            assert verdict["remediation"] == next_line
            for name, stream in verdict["streams"].items():
                check_stream(stream, wanted[name], verdict)
    assert seen == ids


def check_stream(stream: dict[str, Any], wanted: bytes | tuple[str, ...] | None, verdict: object) -> None:
    kept = Path(stream["path"]).read_bytes()
    assert (stream["missing"], stream["size_bytes"]) == (False, len(kept))
    assert stream["truncated"] is (len(kept) > TAIL)
    assert stream["tail"] == kept[-TAIL:].decode("utf-8", "replace")
    if isinstance(wanted, tuple):
        assert all(part in kept.decode() for part in wanted), verdict
    elif wanted is not None:
        assert kept == wanted, verdict


def test_output_gives_the_same_bytes_and_earlier_attempts_keep_theirs(ran):
    for job, wanted in list(ran.queue.expected.items())[::7]:
        for name in ("stdout", "stderr"):
            if isinstance(wanted[name], bytes):
                done = ran.queue.raw("output", str(job), "--raw", "--stream", name)
                assert (done.returncode, done.stdout) == (0, wanted[name]), job
    flaky = [job for job, one in ran.queue.expected.items() if one["stdout"] == b"try 3\n"]
    for job in flaky[:3]:
        tries = [ran.queue.raw("output", str(job), "--attempt", n).stdout for n in ("1", "2", "3")]
        assert tries == [b"try 1\n", b"try 2\n", b"try 3\n"]


def test_the_commands_did_their_work_and_left_nothing_running(ran):
    folder = ran.queue.folder
    packed = sorted(folder.glob("*.gz"))
    assert len(packed) == 60
    for path in packed:
        assert gzip.decompress(path.read_bytes()) == path.with_suffix("").read_bytes()
    assert processes_of(folder, folder / ".spoolctl" / "queue.db") == []
    assert not any((folder / ".spoolctl" / "workers").iterdir())
    assert {path.stat().st_mode & 0o777 for path in (folder / ".spoolctl" / "output").rglob("std*")} == {
        0o600
    }
    assert os.stat(folder / ".spoolctl" / "queue.db").st_mode & 0o777 == 0o600
