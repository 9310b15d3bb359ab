"""doctor: whether the queue can be used from here, and how to mend what is in the way. It only looks."""

from ..contract.spec import Args, Flag, Result, Verb
from ..errors import EXIT_NOT_READY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..context import Context
    from ..health.runner import Scene
    from ..store.db import Row
    from ..terminal import View

STATUSES = {"pass": "passed", "warn": "warnings", "fail": "failed", "skip": "skipped"}

SPEC = Verb(
    "doctor",
    "say whether the queue can be used from here, and how to mend what is not right",
    "Looks at the config, the database and the machine, and changes nothing. Each check that failed has a "
    "command that mends it, or shows what a person has to look at. A database that is still to be made is no "
    "failure. Exit 3 and ready:false when a check failed.",
    flags=(Flag("--deep", help="also read the whole database and measure the output; some seconds at most"),),
    examples=(
        ("spoolctl doctor", "is all well here?"),
        ("spoolctl doctor --deep --json", "everything, for a program: data.ready says it in one word"),
    ),
    errors=("INVALID_INPUT", "UNKNOWN_FLAG", "INTERNAL"),
    exits=(EXIT_NOT_READY,),
    any_place=True,
)


def data() -> "dict[str, object]":
    from ..config import PRECEDENCE
    from ..contract import shapes as s
    from ..health import CHECKS, DEEP

    name = s.enum(*(name for name, _, _ in CHECKS + DEEP))
    check = s.obj(
        id=name,
        status=s.enum(*STATUSES),
        message=s.STR,
        remediation=s.nullable(s.STR),
        blocked_by=s.nullable(name),
    )
    return s.obj(
        ready=s.BOOL,
        summary=s.obj(**dict.fromkeys(STATUSES.values(), s.COUNT)),
        config=s.obj(
            config_path=s.nullable(s.STR),
            config_exists=s.BOOL,
            config_valid=s.BOOL,
            db_path=s.nullable(s.STR),
            db_source=s.nullable(s.enum(*PRECEDENCE)),
        ),
        checks=s.arr(check),
        sizes=s.obj(db_bytes=s.COUNT, wal_bytes=s.COUNT, output_bytes_=s.COUNT),
        versions=s.obj(
            tool_version=s.STR,
            contract_version=s.STR,
            schema_version=s.nullable(s.INT),
            python=s.STR,
            sqlite=s.STR,
        ),
    )


def run(args: Args, ctx: "Context") -> Result:
    from ..health import CHECKS, DEEP, runner

    scene, checks = runner.run(CHECKS + DEEP if args.deep else CHECKS, ctx)
    summary = dict.fromkeys(STATUSES.values(), 0)
    for check in checks:
        summary[STATUSES[check["status"]]] += 1
    ready = summary["failed"] == 0
    sizes = {"db_bytes": scene.db_bytes(), "wal_bytes": scene.wal_bytes()}
    if scene.output_bytes is not None:
        sizes["output_bytes"] = scene.output_bytes
    answer: "Row" = {
        "ready": ready,
        "summary": summary,
        "config": _config(scene, checks),
        "checks": checks,
        "sizes": sizes,
        "versions": _versions(scene),
    }
    return Result(answer, _commands(checks, scene), exit_code=0 if ready else EXIT_NOT_READY)


def _config(scene: "Scene", checks: "list[Row]") -> "Row":
    import os

    from ..health.place import config_path
    from ..paths import raw

    path = config_path(scene)
    valid = next(check["status"] != "fail" for check in checks if check["id"] == "config_valid")
    return {
        "config_path": path,
        "config_exists": path is not None and os.path.lexists(raw(path)),
        "config_valid": valid,
        "db_path": scene.place.db if scene.place else None,
        "db_source": scene.place.source if scene.place else None,
    }


def _versions(scene: "Scene") -> "Row":
    import sqlite3
    import sys

    from .. import CONTRACT_VERSION, __version__

    return {
        "tool_version": __version__,
        "contract_version": CONTRACT_VERSION,
        "schema_version": scene.version,
        "python": ".".join(map(str, sys.version_info[:3])),
        "sqlite": sqlite3.sqlite_version,
    }


def _commands(checks: "list[Row]", scene: "Scene") -> "list[str]":
    """What mends failures first, then warnings; with nothing to mend, a look at the queue."""
    found = [
        str(check["remediation"])
        for status in ("fail", "warn")
        for check in checks
        if check["status"] == status and check["remediation"]
    ]
    return list(dict.fromkeys(found))[:3] or [scene.ours("status")]


def text(data: "Row", view: "View") -> str:
    import textwrap

    from ..terminal import escaped, paint

    lines: "list[str]" = []
    checks: "list[Row]" = data["checks"]
    for check in checks:
        status, name = str(check["status"]), str(check["id"]).ljust(24)
        told = textwrap.wrap(
            escaped(str(check["message"])), max(30, view.width - 32), break_long_words=False,
            break_on_hyphens=False,
        )  # fmt: skip
        lines.append(f"{paint(status, view, status.ljust(4))}  {name}  {told[0]}")
        lines += [" " * 32 + line for line in told[1:]]
        if check["remediation"]:
            lines.append(f"      $ {check['remediation']}")
    head = "ready" if data["ready"] else "not ready"
    numbers: "dict[str, int]" = data["summary"]
    counts = ", ".join(f"{n} {word.rstrip('s') if n == 1 else word}" for word, n in numbers.items() if n)
    lines.append(f"{head}: {counts}")
    return "\n".join(lines) + "\n"
