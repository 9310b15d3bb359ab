"""Start-up: what one call costs, as a multiple of the bare interpreter of the same environment.

Each sample is a pair, one right after the other, and the value is the median of the pairs' ratios: what
slows the machine for a while slows both. A worker is attached to the queue, for a call that is the last to
close it pays a checkpoint. It serves the lane that is added to, and runs what comes.
"""

import time

from .tools import seconds

CALLS = {
    "add": ("add", "--", "true"),
    "add_json": ("add", "--json", "--", "true"),
    "status": ("status", "--json"),
    "show": ("show", "1", "--json"),
    "feedback": ("feedback", "1", "--json"),
    "cancel": ("cancel", "2", "--json"),
    "retry": ("retry", "2", "--json"),
    "work_once": ("work", "--once", "-q", "empty", "--json"),
}


def start(bench):
    places = [bench.place(tool) for tool in bench.tools]
    for place in places:
        place.add("--", "true")
        # A lane that nobody serves: canceled and retried in turn.
        place.add("-q", "parked", "--", "true")
        place.worker()
        place.wait_for(lambda place=place: place.state("1") == "done")
    wanted = {name: words for name, words in CALLS.items() if name in bench.wanted}
    if "retry" in wanted:
        wanted = {"cancel": CALLS["cancel"], **wanted}
    for words in wanted.values():
        for place in places:
            place.seconds(*words)  # whatever is loaded for the first time
    if "retry" not in wanted and "cancel" in wanted:
        for place in places:
            place.seconds(*CALLS["retry"])
    for _ in range(bench.times(40, 10)):
        for name, words in wanted.items():
            for place in places:
                bare = seconds([bench.python, "-c", "pass"], bench.bare)
                took = place.seconds(*words)
                bench.board.note(name, place.tool, took / bare)
                if name.startswith("add"):
                    time.sleep(0.02)  # the worker is told, and runs it
                elif name == "cancel" and "retry" not in wanted:
                    place.seconds(*CALLS["retry"])
    bench.crew.end()
