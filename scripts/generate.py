#!/usr/bin/env python3
"""Write everything that is made from the contract: JSON Schemas, reference pages, completions, a golden file.

With --check nothing is written; what differs is named, and the exit status is 1.
"""

import argparse
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from spoolctl import registry  # noqa: E402
from spoolctl.describe import capabilities, completion, pages, schemas  # noqa: E402

FOLDERS = ("schemas", "docs/reference", "docs/completions", "tests/golden")  # hold nothing else


def pretty(document):
    """JSON with whatever fits into a line on one line."""
    return "\n".join(lines(document, 110)) + "\n"


def lines(value, width):
    line = json.dumps(value)
    if len(line) <= width or not value or not isinstance(value, (dict, list)):
        return [line]
    named = isinstance(value, dict)
    found = ["{" if named else "["]
    for n, key in enumerate(value, 1):
        inner = lines(value[key] if named else key, width - 2)
        if named:
            inner[0] = f"{json.dumps(key)}: {inner[0]}"
        inner[-1] += "," if n < len(value) else ""
        found += ["  " + line for line in inner]
    return [*found, "}" if named else "]"]


def made():
    """{path below the root: text}."""
    specs, shapes = registry.specs(), registry.shapes()
    told = capabilities.document(specs, shapes)
    files = {"schemas/envelope.json": pretty(schemas.envelope(specs, shapes))}
    for verb, spec in specs.items():
        files[f"schemas/{verb}.json"] = pretty(schemas.answer(spec, shapes))
    for name in schemas.SPECIAL:
        files[f"schemas/{name}.json"] = pretty(schemas.special(name, specs, shapes))
    for name, shape in schemas.streams(shapes).items():
        files[f"schemas/{name}.json"] = pretty({"$schema": schemas.DIALECT, **shape})
    files |= {f"docs/reference/{name}": text for name, text in pages.pages(told).items()}
    files |= {f"docs/completions/{name}": text for name, text in completion.files(specs).items()}
    # Without what schemas/ holds already.
    for verb in told["verbs"].values():
        del verb["output_schema"]
    files["tests/golden/capabilities.json"] = pretty(told | {"tool_version": "VERSION"})
    return files


def stale(files):
    """Paths that differ from what is made, are missing, or should not be there."""
    there = {
        path.relative_to(ROOT).as_posix()
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and not path.name.startswith(".")
    }
    wrong = {
        path for path, text in files.items() if path not in there or (ROOT / path).read_text("utf-8") != text
    }
    return sorted(wrong | (there - files.keys()))


def write(files):
    for path in stale(files):
        if path in files:
            (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
            (ROOT / path).write_text(files[path], "utf-8")
        else:
            (ROOT / path).unlink()
        print(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; name what differs")
    files = made()
    if not parser.parse_args().check:
        write(files)
        return 0
    wrong = stale(files)
    if wrong:
        print("not as the contract makes them:", *wrong, "run: python3 scripts/generate.py", sep="\n  ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
