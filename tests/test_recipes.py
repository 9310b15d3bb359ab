"""docs/recipes: the blocks of a page, as they stand, do what it says, as far as that can be seen here."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys

import pytest
from support import ROOT, clean_env

# Runs the script once for every index, as Slurm would somewhere else; it goes on when one fails.
SBATCH = """#!/bin/sh
range=${1#--array=}; shift
echo "$range" >>"$RANGES"
n=${range%-*}
while [ "$n" -le "${range#*-}" ]; do
    SLURM_ARRAY_TASK_ID=$n sh "$@" || echo "task $n failed"
    n=$((n + 1))
done
"""
# What a job's command notes: its words, directory and a variable, exactly.
NOTE = (
    "import json, os, sys; "
    "print(json.dumps([sys.argv[1:], os.getcwd(), os.environ.get('COLOUR'), os.environ['SPOOLCTL_JOB_ID']]), "
    "file=open(os.environ['NOTES'], 'a'))"
)
NASTY = ["a b", "", "*", "$HOME", "it's", 'say "x"', "\n", "l1\nl2\n", "é€😀", "\\", "-n", "`id`"]


def blocks():
    text = (ROOT / "docs" / "recipes" / "slurm.md").read_text(encoding="utf-8")
    script, task, calls = re.findall(r"^```(?:python|sh)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return script, task, calls


class Site:
    """A directory with the page's files, and a PATH with this tool and the stand-in."""

    def __init__(self, spool):
        self.spool = spool
        self.path = spool.path
        script, task, self.calls = blocks()
        (self.path / "hand_over.py").write_text(script)
        (self.path / "task.sbatch").write_text(task)
        tools = self.path / "tools"
        tools.mkdir()
        ours = f'exec {shlex.quote(sys.executable)} -m spoolctl "$@"'
        python = f'exec {shlex.quote(sys.executable)} "$@"'
        for name, text in (
            ("spoolctl", f"#!/bin/sh\n{ours}\n"),
            ("python3", f"#!/bin/sh\n{python}\n"),
            ("sbatch", SBATCH),
        ):
            (tools / name).write_text(text)
            (tools / name).chmod(0o755)
        env = clean_env()
        self.env = env | {
            "PATH": f"{tools}:{env['PATH']}",
            "NOTES": str(self.path / "notes"),
            "RANGES": str(self.path / "ranges"),
        }

    def hand_over(self):
        """The last block; returns what it said."""
        done = subprocess.run(
            ["sh", "-e", "-c", self.calls], cwd=self.path, env=self.env, capture_output=True, timeout=100
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.decode() + done.stderr.decode()

    def notes(self):
        return [json.loads(line) for line in (self.path / "notes").read_text().splitlines()]

    def ranges(self):
        return (self.path / "ranges").read_text().split()


@pytest.fixture
def site(spool):
    return Site(spool)


def test_slurm_tasks_are_the_jobs_exactly_and_each_runs_once(site):
    spool = site.spool
    elsewhere = site.path / "an odd\ndirectory"
    elsewhere.mkdir()
    words = ["--", sys.executable, "-c", NOTE]
    low = spool.add(*words, "low")
    nasty = spool.add("--priority", "5", "--cwd", str(elsewhere), "--env", "COLOUR=a b\nc'", *words, *NASTY)
    keyed = spool.add("--key", "nightly", *words, "keyed")
    assert spool.json("add", "--key", "nightly", *words, "keyed")["deduplicated"] is True
    left = [
        spool.add("--after", "1h", *words, "later"),
        spool.add("--queue", "other", *words, "another lane"),
        spool.add(*words, "a\udcff"),  # a byte that is not UTF-8
    ]
    assert site.hand_over() == f"left in the queue, not UTF-8: {left[2]}\n"
    here = str(site.path)
    assert site.notes() == [
        [NASTY, str(elsewhere), "a b\nc'", str(nasty)],
        [["low"], here, None, str(low)],
        [["keyed"], here, None, str(keyed)],
    ]
    assert [spool.state(job) for job in (low, nasty, keyed)] == ["canceled"] * 3
    assert [spool.state(job) for job in left] == ["queued"] * 3
    assert (site.path / "handed-over").stat().st_mode & 0o077 == 0
    assert spool.json("add", "--key", "nightly", *words, "keyed")["deduplicated"] is False  # as the page says


def test_a_job_that_is_claimed_meanwhile_stays_with_its_worker(site):
    """The script has seen both jobs as queued; then a worker takes one, and then they are canceled."""
    spool = site.spool
    script = (site.path / "hand_over.py").read_text()
    worker = 'subprocess.run(["spoolctl", "work", "--once", "--json"], stdout=subprocess.DEVNULL)'
    changed = script.replace("    jobs = due(lane)\n", f"    jobs = due(lane)\n    {worker}\n")
    assert changed != script
    (site.path / "hand_over.py").write_text(changed)
    first, second = (spool.add("--", sys.executable, "-c", NOTE, word) for word in ("first", "second"))
    spool.env["NOTES"] = site.env["NOTES"]
    assert site.hand_over() == ""
    assert [note[0] for note in site.notes()] == [["first"], ["second"]]
    assert (spool.state(first), spool.state(second), site.ranges()) == ("done", "canceled", ["0-0"])


def test_more_than_a_page_of_jobs_and_more_than_one_array(site):
    """`show` is a process a job: so here the script asks for small pages and makes small arrays."""
    spool = site.spool
    spool.json("add", "--from", "-", stdin=b"echo $SPOOLCTL_JOB_ID >>ran\n" * 7)
    script = (site.path / "hand_over.py").read_text()
    changed = script.replace("ARRAY = 1000", "ARRAY = 3").replace('"--limit", "0"', '"--limit", "2"')
    (site.path / "hand_over.py").write_text(changed)
    assert changed.count("= 3") == changed.count('"2"') == 1
    site.hand_over()
    assert site.ranges() == ["0-2", "0-2", "0-0"]
    assert (site.path / "ran").read_text().split() == [str(n) for n in range(1, 8)]
    assert spool.json("status")["counts"]["canceled"] == 7


def test_a_lock_that_is_not_free_for_a_moment_loses_no_job(site):
    """The stand-in answers every third call as a queue does that somebody else is writing to."""
    spool = site.spool
    spool.json("add", "--from", "-", stdin=b"echo $SPOOLCTL_JOB_ID >>ran\n" * 4)
    tool = site.path / "tools" / "spoolctl"
    answer = json.dumps({"ok": False, "errors": [{"code": "LOCKED", "message": "try again", "exit_code": 4}]})
    busy = (
        f"echo x >>calls\n[ $(($(wc -l <calls) % 3)) -ne 0 ] || {{ echo {shlex.quote(answer)}; exit 4; }}\n"
    )
    tool.write_text(tool.read_text().replace("#!/bin/sh\n", "#!/bin/sh\n" + busy))
    assert "try again" in site.hand_over()
    assert (site.path / "ran").read_text().split() == ["1", "2", "3", "4"]


def test_what_was_handed_over_before_a_failure_is_printed_and_the_rest_stays(site):
    spool = site.spool
    spool.json("add", "--from", "-", stdin=b"echo $SPOOLCTL_JOB_ID >>ran\n" * 4)
    script = (site.path / "hand_over.py").read_text()
    changed = script.replace(
        "    if taken(job):\n", "    if job['id'] == 3: sys.exit('failed')\n    if taken(job):\n"
    )
    assert changed != script
    (site.path / "hand_over.py").write_text(changed)
    site.calls = site.calls.replace(">submit.sh", ">submit.sh || true")
    assert "failed" in site.hand_over()
    assert (site.path / "ran").read_text().split() == ["1", "2"]
    assert [spool.state(job) for job in (1, 2, 3, 4)] == ["canceled"] * 2 + ["queued"] * 2


def test_an_empty_lane_hands_over_nothing(site):
    site.spool.add("--queue", "other", "--", "true")
    assert site.hand_over() == ""
    assert not (site.path / "ranges").exists()
