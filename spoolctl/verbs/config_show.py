"""config-show: the settings in force, and where each comes from. Never opens the database."""

from ..contract.spec import Args, Result, Verb

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..context import Context
    from ..store.db import Row
    from ..terminal import View

SPEC = Verb(
    "config-show",
    "show the settings in force and where each comes from",
    "Settings come from --db, SPOOLCTL_DB, the project's .spoolctl/config.json and the defaults. Unknown "
    "keys of the file are ignored and listed. The database is not opened.",
    examples=(("spoolctl config-show", "which database a call from here would use, and why"),),
    errors=("INVALID_INPUT", "UNKNOWN_FLAG", "SAFETY_BLOCK", "INTERNAL"),
)


def data() -> "dict[str, object]":
    from .. import config
    from ..contract import shapes as s

    keys = [key for key in config.KEYS if key != "version"]
    kinds: "Row" = {
        "db_path": s.STR,
        "defaults.timeout": s.nullable(s.SECONDS),
        "defaults.max_retries": s.COUNT,
        "defaults.max_crashes": s.nullable(s.COUNT),
        "defaults.queue": s.STR,
        "capture_env": s.arr(s.STR),
    }
    return s.obj(
        config_path=s.STR,
        config_exists=s.BOOL,
        config_valid=s.BOOL,
        values=s.obj(**{key: kinds[key] for key in keys}),
        sources=s.obj(**{key: s.enum(*config.PRECEDENCE) for key in keys}),
        precedence=s.arr(s.enum(*config.PRECEDENCE)),
        ignored_keys=s.arr(s.STR),
    )


def run(args: Args, ctx: "Context") -> Result:
    from ..config import PRECEDENCE

    config, spool = ctx.config(), ctx.spool()
    values: "Row" = {"db_path": spool.db}
    values.update((f"defaults.{name}", value) for name, value in config.defaults.items())
    values["capture_env"] = config.capture_env
    answer = {
        "config_path": config.path,
        "config_exists": config.exists,
        "config_valid": True,  # a malformed file is refused before this
        "values": values,
        "sources": {key: spool.source if key == "db_path" else config.sources[key] for key in values},
        "precedence": list(PRECEDENCE),
        "ignored_keys": config.unknown,
    }
    following = "spoolctl config-validate" if config.unknown else ctx.with_db("spoolctl status")
    return Result(answer, [following])


def text(data: "Row", view: "View") -> str:
    from ..terminal import View, escaped, table

    there = "" if data["config_exists"] else " (not there)"
    values: "Row" = data["values"]
    sources: "dict[str, str]" = data["sources"]
    rows = [[key, sources[key], _shown(value)] for key, value in values.items()]
    # A path is of no use when it is cut to the width.
    settings = table(["SETTING", "FROM", "VALUE"], rows, View(view.now, 10_000))
    parts = [f"config {escaped(str(data['config_path']))}{there}\n", settings]
    ignored: "list[str]" = data["ignored_keys"]
    if ignored:
        parts.append(f"ignored keys: {escaped(', '.join(ignored))}\n")
    return "\n".join(parts)


def _shown(value: object) -> str:
    from ..terminal import escaped

    if value is None:
        return "none"
    return escaped(" ".join(value) if isinstance(value, list) else str(value))
