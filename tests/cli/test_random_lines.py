"""QUALITY, random command lines: whatever stands on it, a call ends in order. 20 000 of them."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest
from support import clean_env

SCRIPT = Path(__file__).with_name("random_lines.py")


def go(tmp_path, seeds, count, timeout):
    """As many processes at once as there are seeds."""
    running = []
    for seed in seeds:
        line = [sys.executable, str(SCRIPT), "--seed", str(seed), "--count", str(count)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        running.append(subprocess.Popen(line, cwd=tmp_path, env=clean_env(), **pipes))
    try:
        for seed, process in zip(seeds, running):
            out, err = process.communicate(timeout=timeout)
            assert process.returncode == 0, err[-4000:]
            assert f"seed {seed}: " in out
    finally:
        for process in running:
            process.kill()


@pytest.mark.timeout(600)
def test_twenty_thousand_random_command_lines_end_in_order(tmp_path):
    go(tmp_path, (1, 2, 3, 4), 5000, 500)


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_many_more_random_command_lines_end_in_order(tmp_path):
    go(tmp_path, [random.randrange(2**31) for _ in range(4)], 20_000, 1100)
