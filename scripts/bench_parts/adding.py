"""Bulk: `add --from -` of 100 000 lines as a whole call, and how long it keeps another writer waiting.

The queue is there, with a worker of another lane attached. The lines come from a file.
"""

import os

from .probe import Probe

LINES = 100_000
KINDS = {"bulk": "true {n}\n", "bulk_json": '{{"argv":["true","{n}"]}}\n'}


def bulk(bench):
    feeds = {}
    for name, line in KINDS.items():
        feeds[name] = os.path.join(bench.folder, name)
        with open(feeds[name], "w") as file:
            file.writelines(line.format(n=n) for n in range(LINES))
    for _ in range(bench.times(3, 1)):
        for name, feed in feeds.items():
            if name not in bench.wanted and not (name == "bulk" and "bulk_lock" in bench.wanted):
                continue
            for tool in bench.tools:
                place = bench.place(tool)
                place.add("-q", "other", "--after", "1d", "--", "true")
                worker = place.worker("-q", "other")
                probe = Probe(bench, place)
                took = place.seconds("add", "--from", "-", feed=feed)
                waits = probe.stop()
                bench.board.note(name, tool, LINES / took)
                if name == "bulk":
                    bench.board.note("bulk_lock", tool, waits[-1])
                bench.crew.end([worker])
                bench.leave(place)
    for feed in feeds.values():
        os.unlink(feed)
