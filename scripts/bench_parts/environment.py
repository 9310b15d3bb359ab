"""A fresh virtual environment with the checkout installed as a user has it: with a launcher and `.pyc`
files.

Nothing of the caller's Python reaches it: every PYTHON* variable is cleared, and our own SPOOLCTL_* too.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from .tools import QUIET

ROOT = Path(__file__).resolve().parent.parent.parent
LAUNCHER = """#!{python}
import sys
from spoolctl.__main__ import main
if __name__ == '__main__':
    sys.exit(main())
"""


def clean():
    """The environment that everything measured runs in."""
    return {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "SPOOLCTL_"))}


def running(python):
    """(python, command, environ, what it is) of an interpreter that is there: it runs the checkout."""
    python = os.path.abspath(python)
    return python, [python, "-m", "spoolctl"], dict(clean(), PYTHONPATH=str(ROOT)), f"{python} -m spoolctl"


def made(folder, crew):
    """(python, command, environ, what it is) of a virtual environment in `folder`, made if it is missing."""
    folder = Path(folder).absolute()
    python, environ = folder / "bin" / "python", clean()
    if not python.exists():
        _call(crew, [sys.executable, "-m", "venv", folder], environ)
    pip = [python, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    notes = []
    if _version(python, environ) < 25 and _fails(crew, [*pip, "install", "--upgrade", "pip>=25"], environ):
        notes.append(f"pip {_version(python, environ)} could not be upgraded: its launcher imports re")
    source = folder / "checkout"
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(ROOT / "spoolctl", source / "spoolctl", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    launcher = folder / "bin" / "spoolctl"
    if _fails(crew, [*pip, "install", "--no-deps", "--force-reinstall", source], environ):
        notes = ["pip could not build: the package is copied, with the launcher of a new pip"]
        _by_hand(python, launcher, source, environ)
    shutil.rmtree(source)
    _call(crew, [python, "-m", "compileall", "-q", _packages(python, environ) / "spoolctl"], environ)
    what = f"pip {_version(python, environ)}, launcher {launcher.name}"
    return str(python), [str(launcher)], environ, "; ".join([what, *notes])


def _packages(python, environ):
    program = "import sysconfig; print(sysconfig.get_path('purelib'))"
    return Path(subprocess.check_output([python, "-c", program], env=environ, text=True).strip())


def _by_hand(python, launcher, source, environ):
    target = _packages(python, environ) / "spoolctl"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source / "spoolctl", target)
    launcher.write_text(LAUNCHER.format(python=python))
    launcher.chmod(0o755)


def _version(python, environ):
    """The major version of its pip, 0 for none."""
    done = subprocess.run([python, "-m", "pip", "--version"], env=environ, capture_output=True, text=True)
    words = done.stdout.split()
    return int(words[1].partition(".")[0]) if done.returncode == 0 else 0


def _fails(crew, argv, environ):
    """Whether it failed. In the crew: `venv` and pip start processes of their own, which end with the run."""
    process = crew.start(argv, env=environ, **QUIET)
    process.wait()
    crew.end([process])
    return process.returncode != 0


def _call(crew, argv, environ):
    if _fails(crew, argv, environ):
        raise SystemExit(f"{' '.join(map(str, argv))} failed")
