"""How long a writer keeps others waiting, seen from outside.

The probe is another process that takes the write lock and gives it back, again and again: the gate first,
where the tool has one, then BEGIN IMMEDIATE. Its longest wait is the longest time the lock was held, as
others feel it: whoever stood before it in the gate's queue is in it too.
"""

import json
import os
import subprocess

from .tools import Unmeasured

PROGRAM = """
import fcntl, json, os, select, sqlite3, sys, time
db, gate = sys.argv[1:]
fd = os.open(gate, os.O_RDWR) if os.path.exists(gate) else -1
conn = sqlite3.connect(db, timeout=0, isolation_level=None)
conn.execute("SELECT count(*) FROM sqlite_master").fetchone()
longest, takes = [], 0
print("ready", flush=True)
while not select.select([0], [], [], 0.001)[0]:
    began = time.perf_counter()
    if fd >= 0:
        fcntl.flock(fd, fcntl.LOCK_EX)
    while True:
        try:
            conn.execute("BEGIN IMMEDIATE")
            break
        except sqlite3.OperationalError:
            time.sleep(0.0002)
    took = time.perf_counter() - began
    conn.execute("ROLLBACK")
    if fd >= 0:
        fcntl.flock(fd, fcntl.LOCK_UN)
    takes += 1
    longest = sorted([*longest, took])[-3:]
print(json.dumps({"longest": longest, "takes": takes}))
"""


class Probe:
    """Runs from its making until `stop`."""

    def __init__(self, bench, place):
        gate = os.path.join(os.path.dirname(place.db), "gate")
        self.crew = bench.crew
        self.process = bench.crew.start(
            [bench.python, "-c", PROGRAM, place.db, gate],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=bench.bare["env"],
        )  # fmt: skip
        self.process.stdout.readline()

    def stop(self):
        """Seconds of its three longest waits, the longest last. Raises Unmeasured."""
        try:
            told, _ = self.process.communicate(b"stop", timeout=60)
        except subprocess.TimeoutExpired:
            raise Unmeasured("the probe never got the write lock") from None
        finally:
            self.crew.end([self.process])
        if self.process.returncode:
            raise Unmeasured("the probe of the write lock failed")
        return json.loads(told)["longest"]
