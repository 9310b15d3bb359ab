"""python tests/contract_tester [--sample N] [--seed S] [--command WORD...]

Derives every call from the capabilities of the executable, runs all of them or a sample, and prints the
numbers by category and each finding with the command that shows it. Exit 1 when there is one.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from contract_tester.examine import examine  # noqa: E402
from contract_tester.runner import clean_env  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sample", type=int, help="run so many calls, of every kind; without it all")
    parser.add_argument("--seed", type=int, default=random.randrange(2**31), help="of the sample")
    parser.add_argument("--command", nargs=argparse.REMAINDER, help="the executable; behind all else")
    chosen = parser.parse_args()
    root = str(Path(__file__).resolve().parents[2])
    env = clean_env(PYTHONPATH=os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")])))
    began = time.monotonic()
    command = chosen.command or [sys.executable, "-m", "spoolctl"]
    report = examine(command, env, chosen.sample, chosen.seed)
    found = report.lines()
    print("\n".join([*found, report.table()]))
    print(f"seed {chosen.seed}, {time.monotonic() - began:.0f} s, {len(found)} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
