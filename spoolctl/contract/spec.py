"""What a verb is: its arguments, flags, rules and answer, as data everything else is generated from."""

from .types import PATH, Type

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Flag:
    """One flag. `type` None makes it a switch. `default` is shown and used when it is not given.

    `config` names the key of the config's `defaults` that replaces the default.
    """

    __slots__ = ("config", "default", "help", "name", "repeat", "required", "short", "type")

    def __init__(
        self,
        name: str,
        type: "Type | None" = None,
        default: object = None,
        help: str = "",
        short: "str | None" = None,
        repeat: bool = False,
        required: bool = False,
        config: "str | None" = None,
    ) -> None:
        self.name = name
        self.type = type
        self.default = default
        self.help = help
        self.short = short
        self.repeat = repeat
        self.required = required
        self.config = config

    @property
    def dest(self) -> str:
        return self.name.lstrip("-").replace("-", "_")


class Arg:
    """A positional argument: `nargs` is `1`, `?`, `*`, `+` or `remainder` (an argv, taken exactly)."""

    __slots__ = ("help", "name", "nargs", "type")

    def __init__(self, name: str, type: Type, nargs: str = "1", help: str = "") -> None:
        self.name = name
        self.type = type
        self.nargs = nargs
        self.help = help

    @property
    def dest(self) -> str:
        return self.name.lower()


class Verb:
    """A verb's whole contract but the shape of its data, which `data()` of its module gives.

    exclusive: pairs of dests that must not both be given. needs: {dest: dests of which it needs one}.
    one_of: dests of which at least one must be given. db: whether `--db` belongs to the verb.
    modes: of `envelope`, `frames`, `raw`, `text`. interrupts: whether it may end a running command.
    bounded_by: {dest, or "" for every call: words that make a call with it, which may wait for long, end
    soon}; where there are several, the first that the rest of the line does not exclude.
    raw_with: {dest: its values that go with --raw}. only_with_key: dests that go with named jobs only where
    one of these is `key:KEY`. any_place: whether it answers also where the database's place is malformed.
    confirmation: the flags that let a call pass its safety gate.
    """

    def __init__(
        self,
        name: str,
        summary: str,
        description: str = "",
        args: "tuple[Arg, ...]" = (),
        flags: "tuple[Flag, ...]" = (),
        exclusive: "tuple[tuple[str, str], ...]" = (),
        needs: "dict[str, tuple[str, ...]] | None" = None,
        one_of: "tuple[str, ...]" = (),
        examples: "tuple[tuple[str, str], ...]" = (),
        errors: "tuple[str, ...]" = (),
        warnings: "tuple[str, ...]" = (),
        exits: "tuple[int, ...]" = (),
        modes: "tuple[str, ...]" = ("envelope", "text"),
        db: bool = True,
        mutates: bool = False,
        destructive: bool = False,
        idempotent: bool = True,
        stdin: str = "",
        safety: str = "",
        interrupts: bool = False,
        bounded_by: "dict[str, tuple[tuple[str, ...], ...]] | None" = None,
        raw_with: "dict[str, tuple[str, ...]] | None" = None,
        only_with_key: "tuple[str, ...]" = (),
        any_place: bool = False,
        confirmation: "tuple[str, ...]" = (),
    ) -> None:
        self.name = name
        self.summary = summary
        self.description = description
        self.args = args
        self.flags = flags + COMMON + ((DB_FLAG,) if db else ())
        self.exclusive = exclusive
        self.needs = needs or {}
        self.one_of = one_of
        self.examples = examples
        self.errors = errors
        self.warnings = warnings
        self.exits = exits
        self.modes = modes
        self.db = db
        self.mutates = mutates
        self.destructive = destructive
        self.idempotent = idempotent
        self.stdin = stdin
        self.safety = safety
        self.interrupts = interrupts
        self.bounded_by = bounded_by or {}
        self.raw_with = raw_with or {}
        self.only_with_key = only_with_key
        self.any_place = any_place
        self.confirmation = confirmation

    def flag(self, dest: str) -> "Flag | None":
        return next((f for f in self.flags if f.dest == dest), None)

    def spelled(self, dest: str) -> str:
        """The name of a flag or argument as it is written."""
        flag = self.flag(dest)
        return flag.name if flag else next(arg.name for arg in self.args if arg.dest == dest)


COMMON = (
    Flag("--json", help="answer with one JSON document"),
    Flag("--help", help="show this help", short="-h"),
)
DB_FLAG = Flag("--db", PATH, help="the database file, or a directory that holds queue.db")
VERSION_FLAG = Flag("--version", help="print the version")
BEFORE_VERB = (*COMMON, DB_FLAG, VERSION_FLAG)  # what may stand before the verb


class Args:
    """The parsed values by dest; `given` holds the dests that stood on the command line."""

    def __init__(self) -> None:
        self.given: "set[str]" = set()
        self.help = False

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...  # values are set by the parser


class Result:
    """What a verb answers. `streamed` means it wrote its own output and nothing is to be added."""

    __slots__ = ("commands", "data", "exit_code", "pagination", "streamed", "wait", "warnings")

    def __init__(
        self,
        data: "dict[str, object] | None" = None,
        commands: "list[str] | None" = None,
        warnings: "list[tuple[str, str]] | None" = None,
        pagination: "dict[str, object] | None" = None,
        wait: "dict[str, object] | None" = None,
        exit_code: int = 0,
        streamed: bool = False,
    ) -> None:
        self.data = data
        self.commands = commands or []
        self.warnings = warnings or []
        self.pagination = pagination
        self.wait = wait
        self.exit_code = exit_code
        self.streamed = streamed
