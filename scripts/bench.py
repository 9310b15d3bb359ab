#!/usr/bin/env python3
"""Measure how fast the tool is, and say which bars it meets.

Figures are ratios measured in one run on one machine. It makes a virtual environment of its own, in which the
checkout is installed as a user has it. The bars stand in bench_parts/bars.py.

Exit 0: everything asked for was measured, whatever the values. 1: something could not be.
"""

import argparse
import os
import shlex
import shutil
import signal
import sqlite3
import sys
import tempfile

from bench_parts import adding, crowds, draining, environment, growth, machine, resting, starting, tails, told
from bench_parts.bars import BY_NAME, METRICS, SECTIONS
from bench_parts.board import Board
from bench_parts.tools import Crew, Place, Tool, Unmeasured

MEASURES = {
    "start": starting.start,
    "drain": draining.drain,
    "parallel": draining.parallel,
    "bulk": adding.bulk,
    "wake": told.wake,
    "canceling": told.cancel,
    "recovery": told.recovery,
    "idle": resting.idle,
    "growth_finished": growth.finished,
    "growth_delayed": growth.delayed,
    "prune": growth.prune,
    "output": tails.output,
    "contention": crowds.contention,
    "gate": crowds.gate,
    "watchers": resting.watchers,
}


class Bench:
    """One run: what is measured, where, how often, and the board for the samples."""

    def __init__(self, options, folder, crew):
        self.folder, self.quick, self.rounds = folder, options.quick, options.rounds
        self.jobs = 500 if options.quick else 2000
        self.wanted = options.wanted
        self.crew = crew
        self.places, self.kept = 0, {}
        if options.python:
            found = environment.running(options.python)
        else:
            found = environment.made(options.venv or os.path.join(folder, "venv"), self.crew)
        self.python, command, environ, self.environment = found
        self.bare = {"cwd": folder, "env": environment.clean()}
        self.tools = [Tool("ours", command, environ)]
        if options.against:
            self.tools.append(Tool("other", shlex.split(options.against), environment.clean()))
        self.board = Board(options.json, self.wanted, len(self.tools) > 1)

    def times(self, full, quick):
        """How many rounds a section makes."""
        return self.rounds or (quick if self.quick else full)

    def place(self, tool):
        """A new folder with a queue for a tool."""
        self.places += 1
        return Place(tool, os.path.join(self.folder, str(self.places)), self.crew)

    def leave(self, place):
        """Remove a place that is not needed any more."""
        shutil.rmtree(place.folder)

    def run(self):
        """Measure and show section by section; whether all could be measured."""
        complete = True
        self.board.machine(machine.facts(self))
        for name in SECTIONS:
            if not any(BY_NAME[one].section == name for one in self.wanted):
                continue
            try:
                MEASURES[name](self)
            except (Unmeasured, OSError, sqlite3.Error) as why:
                complete = False
                self.board.failed(name, str(why))
            finally:
                self.crew.end()
            self.board.section(name, self.tools)
        return complete


def chosen(words, parser):
    """The metrics that a comma list of metrics and sections names."""
    names = [word for word in words.split(",") if word]
    for name in names:
        if name not in BY_NAME and name not in SECTIONS:
            known = ", ".join([*SECTIONS, *BY_NAME])
            parser.error(f"no metric or section is called {name!r}; there are: {known}")
    return [metric.name for metric in METRICS if metric.name in names or metric.section in names]


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="one line of JSON a metric")
    parser.add_argument("--only", metavar="NAME,...", help="only these metrics or sections")
    parser.add_argument("--quick", action="store_true", help="fewer rounds and smaller queues: two minutes")
    parser.add_argument("--rounds", type=int, metavar="N", help="how often each pair is measured")
    parser.add_argument("--against", metavar="CMD", help="run the same work on this command too, in turn")
    parser.add_argument("--venv", metavar="DIR", help="make the environment there, and keep it")
    parser.add_argument("--python", metavar="PYTHON", help="use this interpreter as it is, with -m spoolctl")
    parser.add_argument("--folder", metavar="DIR", help="where the queues are made (default: TMPDIR)")
    options = parser.parse_args()
    if options.rounds is not None and options.rounds < 1:
        parser.error("--rounds takes 1 or more")
    if options.python and options.venv:
        parser.error("--python and --venv exclude each other")
    options.wanted = chosen(options.only, parser) if options.only else list(BY_NAME)
    return options


def stopped(number, frame):
    sys.exit(128 + number)


def main():
    options = arguments()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stopped)
    folder = os.path.realpath(tempfile.mkdtemp(prefix="spoolctl-bench-", dir=options.folder))
    crew = Crew()
    try:
        bench = Bench(options, folder, crew)
        return 0 if bench.run() else 1
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        crew.close()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
