"""What is made from the contract is as the contract makes it: schemas, pages, completions, a golden file."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "scripts" / "generate.py"


def generate():
    spec = importlib.util.spec_from_file_location("generate", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_nothing_that_is_generated_has_drifted():
    done = subprocess.run([sys.executable, str(SCRIPT), "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_drift_is_named_with_the_command_that_mends_it(tmp_path, monkeypatch, capsys):
    made = generate()
    monkeypatch.setattr(made, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "argv", ["generate.py"])
    assert made.main() == 0
    monkeypatch.setattr(sys, "argv", ["generate.py", "--check"])
    assert made.main() == 0
    (tmp_path / "schemas" / "add.json").write_text("{}")
    (tmp_path / "docs" / "reference" / "limits.md").unlink()
    (tmp_path / "schemas" / "gone.json").write_text("{}")
    capsys.readouterr()
    assert made.main() == 1
    told = capsys.readouterr().out
    assert {"schemas/add.json", "docs/reference/limits.md", "schemas/gone.json"} <= set(told.split())
    assert "python3 scripts/generate.py" in told
    monkeypatch.setattr(sys, "argv", ["generate.py"])
    assert made.main() == 0
    assert made.stale(made.made()) == []
