"""QUALITY, random command lines: whatever stands on it, a call ends in order."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support import clean_env

SCRIPT = Path(__file__).with_name("random_lines.py")


def go(tmp_path, seed, count, timeout):
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--seed", str(seed), "--count", str(count)],
        cwd=tmp_path, env=clean_env(), capture_output=True, text=True, timeout=timeout,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    assert f"seed {seed}: " in done.stdout


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [1, 2])
def test_random_command_lines_end_in_order(tmp_path, seed):
    go(tmp_path, seed, 1500, 500)


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_many_random_command_lines_end_in_order(tmp_path):
    import random

    go(tmp_path, random.randrange(2**31), 20_000, 1100)
