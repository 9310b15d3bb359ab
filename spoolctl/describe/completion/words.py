"""What completes where: the verbs' flags and arguments in a form that knows no shell.

Everything is read off the specs: a value is completed by what its type says of itself.
"""

from ...contract.spec import BEFORE_VERB, Arg, Flag, Verb
from ...contract.types import ChoiceList, Path, Type, VerbName

SELF = "completion"  # the verb that the scripts call for the words of a queue


class Value:
    """What completes a value. `kind` is `words` (one of `words`), `list` (a comma list of them), `files`,
    `directories`, `argv` (a command and its words), `nothing`, or what `--words` takes: words of the queue.
    """

    __slots__ = ("kind", "title", "words")

    def __init__(self, kind: str, title: str, words: "tuple[str, ...]" = ()) -> None:
        self.kind = kind
        self.title = title
        self.words = words


class Option:
    """A flag: its spellings, what completes its value (None for a switch), and what it takes away.

    `gone` are the spellings no longer offered once it stands on the line, `alone` whether arguments are not.
    """

    __slots__ = ("alone", "gone", "help", "names", "repeat", "value")

    def __init__(
        self, flag: Flag, verbs: "tuple[str, ...]", gone: "tuple[str, ...]" = (), alone: bool = False
    ) -> None:
        self.names = spellings(flag)
        self.help = flag.help
        self.repeat = flag.repeat
        self.value = of_type(flag.type, verbs) if flag.type else None
        self.gone = gone if flag.repeat else self.names + gone
        self.alone = alone


class Line:
    """What may stand behind a verb; "" names the line before it, whose argument is the verb.

    `many`: the last argument takes all words that are left. `used` are the spellings that an argument takes
    away. `words` are the names and summaries of verbs, in the line before the verb.
    """

    __slots__ = ("args", "many", "name", "options", "used", "words")

    def __init__(
        self, name: str, options: "list[Option]", args: "list[Value]", many: bool, used: "tuple[str, ...]"
    ) -> None:
        self.name = name
        self.options = options
        self.args = args
        self.many = many
        self.used = used
        self.words: "list[tuple[str, str]]" = []

    @property
    def takes_argv(self) -> bool:
        return bool(self.args) and self.args[-1].kind == "argv"


def spellings(flag: Flag) -> "tuple[str, ...]":
    return tuple(dict.fromkeys(name for name in (flag.name, flag.short) if name))


def of_type(kind: Type, verbs: "tuple[str, ...]") -> Value:
    """`verbs` are the names of all verbs, which the type of such a name does not know."""
    if isinstance(kind, VerbName):
        return Value("words", kind.name, verbs)
    if kind.words:
        return Value(kind.words, kind.name)
    if kind.choices:
        return Value("list" if isinstance(kind, ChoiceList) else "words", kind.name, kind.choices)
    if isinstance(kind, Path):
        return Value("directories" if kind.directory else "files", kind.name)
    if kind.none:
        return Value("words", kind.name, ("none",))
    return Value("nothing", kind.name)


def lines(specs: "dict[str, Verb]") -> "list[Line]":
    """The line before the verb, then that of each verb."""
    names = tuple(specs)
    first = Line(
        "", [Option(flag, names) for flag in BEFORE_VERB], [Value("words", "verb", names)], False, ()
    )
    first.words = [(name, verb.summary) for name, verb in specs.items()]
    return [first, *(_line(verb, names) for verb in specs.values())]


def handed(specs: "dict[str, Verb]") -> "tuple[Option, ...]":
    """The flags that a call for words takes over from the line: those that say which queue is meant."""
    own = [flag for flag in specs[SELF].flags if flag.type is not None and not flag.type.choices]
    return tuple(Option(flag, tuple(specs)) for flag in own)


def _line(verb: Verb, verbs: "tuple[str, ...]") -> Line:
    options = [
        Option(flag, verbs, _names(verb, excluded := _excluded(verb, flag.dest)), _has_arg(verb, excluded))
        for flag in verb.flags
    ]
    args = [_argument(arg, verbs) for arg in verb.args]
    many = bool(verb.args) and verb.args[-1].nargs in ("*", "+", "remainder")
    taken = [dest for arg in verb.args for dest in _excluded(verb, arg.dest)]
    return Line(verb.name, options, args, many, _names(verb, taken))


def _argument(arg: Arg, verbs: "tuple[str, ...]") -> Value:
    return Value("argv", arg.type.name) if arg.nargs == "remainder" else of_type(arg.type, verbs)


def _excluded(verb: Verb, dest: str) -> "list[str]":
    """What must not stand beside `dest`."""
    return [b if a == dest else a for a, b in verb.exclusive if dest in (a, b)]


def _names(verb: Verb, dests: "list[str]") -> "tuple[str, ...]":
    return tuple(name for flag in verb.flags if flag.dest in dests for name in spellings(flag))


def _has_arg(verb: Verb, dests: "list[str]") -> bool:
    return any(arg.dest in dests for arg in verb.args)
