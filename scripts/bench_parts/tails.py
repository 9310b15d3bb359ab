"""Big output: the tail of a file of 1 GiB, by memory and by time against the same of a small one.

The peak is what wait4 says of the process. It is started from a small interpreter, since a process
inherits the peak of the one it was forked from.
"""

import json
import os
import shutil
import subprocess

from .tools import Unmeasured

BIG, SMALL = 1 << 30, 1 << 16
PEAK = """
import json, os, sys, time
quiet = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
began = time.perf_counter()
pid = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ, file_actions=quiet)
_, status, used = os.wait4(pid, 0)
unit = 1 if sys.platform == "darwin" else 1024
print(json.dumps([time.perf_counter() - began, used.ru_maxrss * unit / 2**20, status]))
"""


def peak(bench, place, *words):
    """(seconds, MiB) of a call. Raises Unmeasured."""
    argv = [bench.python, "-I", "-S", "-c", PEAK, *place.argv(*words)]
    done = subprocess.run(argv, capture_output=True, text=True, **place.how)
    if done.returncode:
        raise Unmeasured(f"the peak could not be measured: {done.stderr[-300:]}")
    took, memory, status = json.loads(done.stdout)
    if status:
        raise Unmeasured(f"{words[0]} failed")
    return took, memory


def _write(path, size):
    """Real lines, not a hole."""
    block = b"".join(b"line %9d of a long output, like any other line of it\n" % n for n in range(20_000))
    with open(path, "ab") as file:
        while (left := size - file.tell()) > 0:
            file.write(block[:left])
        file.flush()
        os.fsync(file.fileno())


def output(bench):
    if shutil.disk_usage(bench.folder).free < (1 + 2 * len(bench.tools)) * BIG:
        raise Unmeasured("there is no room for a file of 1 GiB")
    places = [bench.place(tool) for tool in bench.tools]
    for place in places:
        place.fill(2)
        place.ask("work", "--drain")
        for job, size in (("1", BIG), ("2", SMALL)):
            _write(place.ask("show", job)["attempts"][0]["stdout_path"], size)
        place.worker("-q", "other")
    for _ in range(bench.times(20, 5)):
        for place in places:
            took = {}
            for job in ("2", "1"):
                words = ("output", job, "--json", "--tail-bytes", "4096")
                took[job], memory = peak(bench, place, *words)
            bench.board.note("output_time", place.tool, took["1"] / took["2"])
            bench.board.note("output_memory", place.tool, memory)
    for place in places:
        bench.leave(place)
