"""Random command lines over every verb and flag: python tests/cli/random_lines.py [--seed N] [--count N]

Each is run in this process in a scratch directory and its answer is checked as in every other test: a
status from 0 to 6, one document, no traceback. A call that hangs ends the run with a stack.
"""

from __future__ import annotations

import argparse
import faulthandler
import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [
        str(Path(__file__).resolve().parent.parent),
        str(Path(__file__).resolve().parent.parent.parent),
    ]

from support import inside, run  # noqa: E402

from spoolctl import argv, registry  # noqa: E402
from spoolctl.contract.types import Duration, JobRef  # noqa: E402
from spoolctl.errors import SpoolctlError  # noqa: E402

LONGEST = 0.05  # seconds a call of this run may wait
HANG = 30
WAITS = ("wait", "wait_timeout", "idle_timeout")
WORDS = [
    "1", "2", "3", "99", "0", "-1", "1-3", "3-1", "key:k", "key:", "true", "echo", "sh", "-c", "exit 3", "",
    " ", "a b", "\u00e9", "\udcff", "\n", "-", "--", "---", "-5", "-x", "--x", "=", "--=", "--json=", "none",
    "all", "x" * 300, "9" * 40, "nan", "inf", "{}", "[]", "done", "queued,dead", "k=v", "stdout", "default",
]  # fmt: skip


def value(rng: random.Random, kind: object) -> str:
    probes = kind.probes()  # type: ignore[attr-defined]
    group = rng.choice(["valid"] * 12 + ["invalid", "low", "high"])
    if isinstance(kind, Duration) and rng.random() < 0.5:
        return rng.choice(["0.01", "0.02s", "0"])
    if isinstance(kind, JobRef) and rng.random() < 0.7:
        return rng.choice(["1", "2", "3", "4", "5", "6", "7", "8"])
    words = [word for word in probes[group] if len(word) < 2000]
    return rng.choice(words) if words else rng.choice(WORDS)


def line(rng: random.Random) -> list[str]:
    """One command line: mostly well-formed pieces, put together without sense."""
    tokens: list[str] = []
    verb = rng.choice(registry.VERBS)
    spec = registry.load(verb).SPEC
    every = [flag for name in registry.VERBS for flag in registry.load(name).SPEC.flags]
    if rng.random() < 0.05:
        tokens += rng.choice(
            [["--db", "other.db"], ["--json"], ["--help"], ["--version"], ["--nope"], ["--db"]]
        )
    if rng.random() < 0.97:
        tokens.append(verb if rng.random() < 0.97 else verb[:-1] + rng.choice("abc"))
    if rng.random() < 0.5:
        tokens += [f"{flag.name}={value(rng, flag.type)}" for flag in spec.flags if flag.required]
    for _ in range(rng.choice([0, 0, 1, 1, 1, 2, 3])):
        flag = rng.choice(spec.flags if rng.random() < 0.95 else every)
        if flag.dest == "help" and rng.random() < 0.8:
            continue
        name = flag.short if flag.short and rng.random() < 0.3 else flag.name
        if flag.type is None:
            tokens.append(name if rng.random() < 0.97 else f"{name}=1")
        elif rng.random() < 0.5:
            tokens.append(f"{name}={value(rng, flag.type)}")
        else:
            tokens += [name, value(rng, flag.type)] if rng.random() < 0.95 else [name]
    for arg in spec.args:
        for _ in range(rng.choice([0, 1, 1, 1, 2])):
            tokens.append(value(rng, arg.type) if rng.random() < 0.8 else rng.choice(WORDS))
    if rng.random() < 0.05:
        tokens.insert(rng.randrange(len(tokens) + 1), rng.choice(WORDS))
    if rng.random() < 0.15:
        tokens += ["--", rng.choice(WORDS), rng.choice(WORDS)]
    if rng.random() < 0.6:
        tokens.insert(rng.randrange(len(tokens) + 1), "--json")
    return tokens


def waits(tokens: list[str]) -> bool:
    """Whether this call would wait for something to happen; those are not run here."""
    try:
        verb, rest = argv.split_verb(tokens)
        if verb not in registry.VERBS:
            return False
        args = argv.parse(registry.load(verb).SPEC, rest)
    except SpoolctlError:
        return False
    if args.help:
        return False
    if verb == "work":
        return "once" not in args.given
    limits = [getattr(args, dest) for dest in WAITS if dest in args.given and dest != "wait"]
    if verb == "wait":
        limits = [args.timeout] if "timeout" in args.given else []
    elif not {"follow", "wait", "watch"} & args.given:
        return False
    return not limits or max(limits) > LONGEST


def answers(seed: int, count: int) -> Iterator[tuple[int, list[str], int]]:
    rng = random.Random(seed)
    for n in range(count):
        tokens = line(rng)
        if waits(tokens):
            continue
        faulthandler.dump_traceback_later(HANG, exit=True)
        try:
            answer = run(*tokens)
        except BaseException:
            print(f"seed {seed}, line {n}: {tokens!r}", file=sys.stderr)
            raise
        assert answer.exit in range(7), answer
        assert answer.code != "INTERNAL", answer
        yield n, tokens, answer.exit
    faulthandler.cancel_dump_traceback_later()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=20_000)
    chosen = parser.parse_args()
    tally = dict.fromkeys(range(7), 0)
    with tempfile.TemporaryDirectory() as folder, inside(folder):
        for _, _, status in answers(chosen.seed, chosen.count):
            tally[status] += 1
    print(f"seed {chosen.seed}: {sum(tally.values())} calls, by status {tally}")


if __name__ == "__main__":
    main()
