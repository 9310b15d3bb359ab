"""SPEC 5: a worker in hard surroundings: busy, without descriptors or helpers, with children that are
quicker than a look. Real processes, real signals.
"""

from __future__ import annotations

import fcntl
import os
import resource
import subprocess
import sys
import time

import pytest
from looking import details, last, pid_in, rows, started, told
from support import alive, clean_env, wait_until
from workers import GO, kill, lines_of, scripted, talking

from spoolctl import paths
from spoolctl.store.open import open_writer
from spoolctl.work import house, loop, shift

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="proves by /proc and pidfd")


TICKS = os.sysconf("SC_CLK_TCK")


def cpu(pid):
    with open(f"/proc/{pid}/stat", "rb") as stat:
        fields = stat.read().rpartition(b")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def test_a_worker_with_results_in_every_turn_sees_what_is_asked_of_the_others(spool):
    slow = spool.add("--priority", "9", "--timeout", "none", "--", "sleep", "300")
    spool.run("add", "--from", "-", stdin=b"true\n" * 4000)
    worker = talking(spool, "-j", "3")
    started(spool, slow)
    spool.json("cancel", str(slow), "--running", "--yes")
    assert spool.json("status")["counts"]["queued"] > 0  # it had something to do all the time
    spool.stop(worker)
    assert lines_of(spool, f"job {slow} attempt 1 canceled")  # by its owner


def test_a_worker_that_may_leave_but_has_a_tree_to_end_waits_without_turning(spool):
    deaf = spool.add("-c", "trap '' TERM; echo $$ >pid; while :; do sleep 1; done")
    dead = spool.start("work", "--grace", "60")
    pid = pid_in(spool.path / "pid")
    started(spool, deaf)
    kill(dead)
    worker = spool.start("work", "--idle-timeout", "0.2", "--max-jobs", "1")
    time.sleep(1)
    before = cpu(worker.pid)
    time.sleep(2)
    assert (alive(pid), worker.poll()) == (True, None)
    assert cpu(worker.pid) - before < 1  # of two seconds
    spool.leaves_processes()


def test_a_worker_takes_no_more_at_once_than_its_descriptors_suffice_for(spool):
    spool.run("add", "--from", "-", stdin=b"sleep 0.2\n" * 30)
    done = spool.cli(
        "work", "--json", "-j", "30", "--drain",
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (58, 58)),
    )  # fmt: skip
    assert done.data["succeeded"] == 30
    assert all(len(spool.show(job)["attempts"]) == 1 for job in range(1, 31))


@pytest.mark.parametrize("spare", [0, 1])  # whatever is asked for first when there is none left
def test_no_descriptor_to_be_had_is_not_the_jobs_fault(spool, spare):
    held = spool.add("--priority", "9", "-c", GO)
    worker = talking(spool, "-j", "4")
    started(spool, held)
    # Taken away while it works: as on a machine on which somebody else took the last ones.
    most = max(map(int, os.listdir(f"/proc/{worker.pid}/fd"))) + 1 + spare
    before = resource.prlimit(worker.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(worker.pid, resource.RLIMIT_NOFILE, (most, before[1]))
    job = spool.add("--", "true")
    wait_until(lambda: details(spool, job, "interrupted"), 20)
    (spool.path / "go").touch()
    spool.wait_for(held, "done")  # what runs is recorded all the same
    resource.prlimit(worker.pid, resource.RLIMIT_NOFILE, before)
    spool.wait_for(job, "done")
    shown = spool.show(job)
    assert (shown["job"]["attempts"], shown["job"]["crashes"]) == (0, 0)
    assert {one["failure_reason"] for one in shown["attempts"]} == {None, "worker_shutdown"}
    assert len(shown["attempts"]) < 8  # it waits longer each time
    assert len(lines_of(spool, "no process or descriptor to be had")) == 1


def take_descriptors(worker, spare):
    """Leave a worker this many; what it had before."""
    used = {int(name) for name in os.listdir(f"/proc/{worker.pid}/fd")}
    free = [number for number in range(200) if number not in used]
    before = resource.prlimit(worker.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(worker.pid, resource.RLIMIT_NOFILE, (free[spare], before[1]))
    return before


@pytest.mark.parametrize("spare", [0, 1])
def test_a_first_claim_waits_for_a_descriptor(spool, spare):
    """What it takes to start a command is there before the command is claimed."""
    worker = spool.start("work", "--json")
    wait_until(lambda: spool.json("status")["workers"], 20)
    before = take_descriptors(worker, spare)
    job = spool.add("--max-crashes", "0", "--", "true")
    time.sleep(1.2)  # it sees the job; and if it does not yet, nothing is shown wrong
    assert worker.poll() is None
    resource.prlimit(worker.pid, resource.RLIMIT_NOFILE, before)
    spool.wait_for(job, "done")
    assert spool.show(job)["job"]["crashes"] == 0


@pytest.mark.parametrize("name", ["spoolctl.watch", "json", "_posixsubprocess"])
def test_what_a_worker_loads_late_may_wait_for_a_descriptor(spool, name):
    program = (
        "import errno, sys\n"
        "class Finder:\n"
        "    left = 2\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {name!r} and self.left:\n"
        "            self.left -= 1\n"
        "            raise OSError(errno.EMFILE, 'no descriptor', name)\n"
        "sys.meta_path.insert(0, Finder())\n"
        "from spoolctl.__main__ import main; main()"
    )
    job = spool.add("--max-crashes", "0", "--", "true")
    worker = scripted(spool, program, "work", "--json")
    spool.wait_for(job, "done")
    shown = spool.show(job)
    assert (shown["job"]["crashes"], len(shown["attempts"])) == (0, 1)  # found out before the claim
    assert worker.poll() is None


@pytest.mark.parametrize("spare", [0, 1])
def test_a_checkpoint_without_a_descriptor_is_made_later(spool, spare):
    program = (
        "from spoolctl.store import checkpoint; checkpoint.STEP = 1; "
        "checkpoint.Checkpointer.__init__.__defaults__ = (200000,); "
        "from spoolctl.__main__ import main; main()"
    )
    job = spool.add("-c", GO)
    worker = scripted(spool, program, "work", "--json")
    started(spool, job)
    time.sleep(0.3)  # its spare files are made, and take none of those that are left
    before = take_descriptors(worker, spare)
    spool.run("add", "--from", "-", "--after", "1h", stdin=b"true\n" * 3000)
    time.sleep(1.5)  # a checkpoint is due; and if it is not yet, nothing is shown wrong
    assert worker.poll() is None
    resource.prlimit(worker.pid, resource.RLIMIT_NOFILE, before)
    (spool.path / "go").touch()
    spool.wait_for(job, "done")
    assert told(spool, job) == ["added", "claimed", "succeeded"]


def test_the_helpers_of_a_reaping_are_no_jobs_children(spool):
    deaf = spool.add("-c", "trap '' TERM; echo $$ >pid; while :; do sleep 0.02; done", "--max-crashes", "0")
    dead = spool.start("work", "--grace", "3")
    pid_in(spool.path / "pid")
    started(spool, deaf)
    kill(dead)
    others = spool.run("add", "--from", "-", stdin=b"sleep 0.01\n" * 150)
    # New processes all the time, so that there is somebody to ask for.
    churn = subprocess.Popen(["sh", "-c", "while :; do sleep 0.3 & sleep 0.02; done"])
    try:
        spool.work()
    finally:
        churn.kill()
        churn.wait()
    assert others.exit == 0
    assert spool.state(deaf) == "dead"
    assert {tuple(details(spool, job, "succeeded")) for job in range(deaf + 1, deaf + 151)} == {(None,)}


START = """
import os, sys
os.unlink(sys.executable)
from spoolctl.__main__ import main
main()
"""


def test_a_helper_that_cannot_be_started_stops_no_worker(spool):
    interpreter = spool.path / "python"
    interpreter.symlink_to(os.path.realpath(sys.executable))
    lost = spool.add("--max-crashes", "0", "-c", "echo $$ >pid; exec sleep 300")
    dead = spool.start("work", "--grace", "0.5")
    pid_in(spool.path / "pid")
    started(spool, lost)
    kill(dead)
    env = clean_env(PYTHONPATH=os.pathsep.join(path for path in sys.path if path), PYTHONHOME=sys.base_prefix)
    worker = subprocess.Popen(
        [str(interpreter), "-c", START, "work", "--max-jobs", "2"], cwd=spool.path, env=env,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    spool._started.append(worker)
    other = spool.add("-c", "sleep 2")
    started(spool, other)
    spool.wait_for(other, "done")
    assert worker.poll() is None
    spool.stop(worker)
    spool.work()  # one that has its interpreter takes the dead one's job back
    assert spool.state(lost) == "dead"


def test_a_token_that_is_not_ours_makes_nobody_a_kept_child(spool):
    keeps = spool.add("-c", GO)
    leaves = spool.add(
        "-c",
        "SPOOLCTL_ATTEMPT_TOKEN=other setsid sh -c 'echo $$ >pid; exec sleep 300' >&- 2>&- & "
        "until [ -s pid ]; do sleep 0.02; done",
    )
    worker = spool.start("work", "--drain", "-j", "2")
    pid = pid_in(spool.path / "pid")
    spool.wait_for(leaves, "done")
    (spool.path / "go").touch()
    assert worker.wait(20) == 0
    assert not alive(pid)
    assert (spool.state(keeps), spool.state(leaves)) == ("done", "done")


QUICK = """
import os, signal, sys, time
os.environ.clear()
null = os.open(os.devnull, os.O_RDWR)
for fd in (0, 1, 2):
    os.dup2(null, fd)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
end = time.monotonic() + 20
while time.monotonic() < end:
    if os.fork():
        os._exit(0)
    os.setsid()
    os.utime(sys.argv[1])
    time.sleep(float(sys.argv[2]))
"""


@pytest.mark.parametrize("pause", ["0", "0.003"])
@pytest.mark.parametrize("timeout", ["1", "none"])
def test_one_that_forks_and_leaves_again_and_again_is_ended(spool, pause, timeout):
    beat = spool.path / "beat"
    beat.touch()
    (spool.path / "quick.py").write_text(QUICK)
    rest = "sleep 300" if timeout != "none" else "sleep 0.3"
    job = spool.add(
        "--timeout", timeout, "--max-retries", "0",
        "-c", f"{sys.executable} -S -E quick.py beat {pause} & {rest}",
    )  # fmt: skip
    done = spool.work("--grace", "0.5")
    assert done.exit == 0
    assert last(spool, job)["state"] == ("succeeded" if timeout == "none" else "timed_out")
    time.sleep(0.1)
    seen = beat.stat().st_mtime_ns
    time.sleep(0.3)
    assert beat.stat().st_mtime_ns == seen


def test_what_workers_without_a_row_left_is_swept_and_nothing_else(spool):
    spool.add()
    spool.work(check=0)
    folder = spool.db.parent / "workers"
    old = {".4711-0a0b0c0d.lock", "900.lock", "901.lock", "901.spare", ".4713-00000000.lock", "notes.txt"}
    for name in old - {"901.spare"} | {".4712-0a0b0c0d.lock", "902.lock"}:
        (folder / name).touch(mode=0o600)
    (folder / "901.spare" / "1").mkdir(parents=True)
    (folder / "901.spare" / "1" / "stdout").touch()
    for name in old:
        os.utime(folder / name, (1, 1))
    with open(folder / ".4713-00000000.lock") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # of one that is about to register
        worker = spool.start("work", "--json")
        keep = {".4712-0a0b0c0d.lock", ".4713-00000000.lock", "902.lock", "notes.txt"}
        wait_until(lambda: {n for n in os.listdir(folder) if n in old} <= keep, 20)
        own = {f"{instance}.lock" for (instance,) in rows(spool, "SELECT instance FROM workers")}
        assert set(os.listdir(folder)) - own == keep
        assert worker.poll() is None


def test_nothing_lets_a_worker_sleep_past_its_look_for_dead_owners(tmp_path, monkeypatch):
    """Promise 3 gives it two seconds, also where no pidfd tells of a death."""
    db = open_writer(paths.Spool(str(tmp_path / "queue.db"), "flag"), create=True)
    now = [1000.0]
    for module in (loop, house, shift):
        monkeypatch.setattr(module.clock, "monotonic", lambda: now[0])
    one = shift.Shift(db, shift.Options(poll_interval=3600.0, idle_timeout=3600.0), {}, lambda line: True)
    looks = []
    monkeypatch.setattr(one.reaper, "look", lambda me: looks.append(now[0]))
    one.stale = False
    for pause in (0.0, 0.0, 30.0, 30.0):  # also while the disk is full
        one.paused_until = now[0] + pause
        house.look_after(one)
        slept = loop._until(one)
        assert slept <= 1.0
        now[0] += slept
    assert [b - a for a, b in zip(looks, looks[1:])] == [1.0] * 3
    one.stops.install()
    one.stops.restore()
    one.reaper.close()
    db.close()
