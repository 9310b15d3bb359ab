#!/usr/bin/env python3
"""Try to break the queue, and say what broke.

Workers are killed, stopped, continued and told to leave at random, and replaced, while jobs with every
bad habit (chaos_parts/jobs.py) arrive, are canceled, retried, pruned and read. Then everybody goes on in
peace until the queue has settled, and what is left is judged (chaos_parts/verdict.py). Everything random
comes from one seed; what the machine makes of it differs from run to run.

Exit 0: every promise held. 1: one was broken: the run's folder is kept and its seed printed.
"""

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile

from chaos_parts.jobs import LANES
from chaos_parts.run import Chaos


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", type=int, default=8, help="at once (default 8)")
    parser.add_argument("--jobs", type=int, default=2000, help="how many (default 2000)")
    parser.add_argument("--seed", type=int, help="repeats the decisions of another run")
    parser.add_argument("--seconds", type=float, default=900, help="most until all has settled (default 900)")
    parser.add_argument("--json", action="store_true", help="print the table as one line of JSON")
    parser.add_argument("--keep", action="store_true", help="keep the run's folder though nothing broke")
    chosen = parser.parse_args()
    if chosen.workers < len(LANES) or chosen.jobs < 1 or chosen.seconds <= 0:
        parser.error(f"--workers takes at least {len(LANES)}, for each lane one; --jobs and --seconds, 1")
    if chosen.seed is None:
        chosen.seed = random.SystemRandom().randrange(2**31)
    for tool in ("flock", "setsid"):
        if shutil.which(tool) is None:
            parser.error(f"the jobs need the command {tool} (of util-linux)")
    return chosen


def main():
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # by way of the clearing up
    say = sys.stderr if options.json else sys.stdout
    again = (
        f"python3 scripts/chaos.py --workers {options.workers} --jobs {options.jobs} --seed {options.seed}"
    )
    print(f"seed {options.seed}: {again}", file=say, flush=True)
    folder = os.path.realpath(tempfile.mkdtemp(prefix="chaos-"))
    chaos = Chaos(options, folder)
    try:
        table = chaos.run()
    except BaseException:
        print(f"the run itself failed; its folder is {folder}; again: {again}", file=say, flush=True)
        raise
    finally:
        chaos.close()
    broken = table["broken"]
    if options.json:
        print(json.dumps(table), flush=True)
    else:
        for name, value in table.items():
            if name != "broken":
                print(f"{name.replace('_', ' '):<18} {value}")
    if broken:
        print(f"BROKEN ({len(broken)}):", *broken[:40], sep="\n  ", file=say)
        print(f"seed {options.seed}, folder {folder}; again: {again}", file=say)
        return 1
    if options.keep:
        print(f"folder {folder}", file=say)
    else:
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
