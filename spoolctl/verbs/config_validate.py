"""config-validate: whether a config file would be accepted, more strictly than at run time."""

import os

from ..contract.spec import Arg, Args, Result, Verb
from ..contract.types import PATH
from ..errors import invalid, nearest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..context import Context
    from ..store.db import Row
    from ..terminal import View

SPEC = Verb(
    "config-validate",
    "check a config file, unknown keys included",
    "Without PATH the project's .spoolctl/config.json. A file that does not exist is valid. What is not is "
    "refused with INVALID_INPUT, which names the problem. The database is not opened.",
    args=(Arg("PATH", PATH, "?", "the file to check"),),
    examples=(("spoolctl config-validate ./config.json", "check a file before it is put in place"),),
    errors=("INVALID_INPUT", "UNKNOWN_FLAG", "INTERNAL"),
    db=False,
)


def data() -> "dict[str, object]":
    from .. import config
    from ..contract import shapes as s

    return s.obj(
        config_path=s.STR,
        exists=s.BOOL,
        valid=s.BOOL,
        format={"const": "json"},
        schema_version={"const": config.VERSION},
        recognized_keys=s.arr(s.enum(*config.KEYS)),
        unknown_keys=s.arr(s.STR),
    )


def run(args: Args, ctx: "Context") -> Result:
    from .. import config, paths

    found = (
        ctx.config()
        if args.path is None
        else config.load(os.path.normpath(os.path.join(ctx.cwd(), str(args.path))))
    )
    if found.unknown:
        key = found.unknown[0]
        raise invalid(
            f"config {found.path} has unknown keys: {', '.join(found.unknown[:20])}; "
            "remove them, or mend their spelling",
            paths.show(found.path),
            nearest(key, config.KEYS),
            flag="config",
            value=key[:200],
            choices=list(config.KEYS),
        )
    answer = {
        "config_path": found.path,
        "exists": found.exists,
        "valid": True,
        "format": "json",
        "schema_version": config.VERSION,
        "recognized_keys": found.recognized,
        "unknown_keys": [],
    }
    return Result(answer, ["spoolctl config-show"])


def text(data: "Row", view: "View") -> str:
    from ..terminal import escaped

    what = "is valid" if data["exists"] else "does not exist, which is valid: the defaults are in force"
    return f"config {escaped(str(data['config_path']))} {what}\n"
