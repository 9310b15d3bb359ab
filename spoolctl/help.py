"""The text of --help, made from the specs. Readable in 80 columns."""

from .contract.spec import Flag, Verb
from .contract.types import Type

WIDTH = 79


def wrapped(text: str, indent: int, first: "str | None" = None) -> str:
    """`text` folded at WIDTH with `indent` blanks before each line; `first` replaces the first indent."""
    lines, line = [], first if first is not None else " " * indent
    empty = True
    for word in text.split():
        if not empty and len(line) + 1 + len(word) > WIDTH:
            lines.append(line)
            line, empty = " " * indent, True
        line += word if empty else " " + word
        empty = False
    return "\n".join([*lines, line])


def _item(name: str, text: str, column: int = 26) -> str:
    if len(name) + 4 > column:
        return f"  {name}\n" + wrapped(text, column)
    return wrapped(text, column, f"  {name}".ljust(column))


def _shown(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return ",".join(str(item) for item in value)
    return str(value)


def _placeholder(kind: Type) -> str:
    return kind.name.upper()


def of_verb(verb: Verb) -> str:
    """The whole help of one verb."""
    lines = [wrapped(f"usage: spoolctl {verb.name} [FLAGS] {_usage(verb)}".rstrip(), 7, ""), ""]
    lines.append(wrapped(verb.summary[:1].upper() + verb.summary[1:] + ".", 0))
    if verb.description:
        lines += ["", wrapped(verb.description, 0)]
    if verb.args:
        lines += ["", "arguments:"] + [_item(a.name, f"{a.help} ({a.type.grammar})") for a in verb.args]
    lines += ["", "flags:"]
    for flag in verb.flags:
        lines += _flag(flag)
    grammars = {_placeholder(f.type): f.type.grammar for f in verb.flags if f.type and not f.type.choices}
    if grammars:
        lines += ["", "values:"] + [_item(name, grammar) for name, grammar in grammars.items()]
    rules = _rules(verb)
    if rules:
        lines += ["", "rules:"] + [wrapped(rule, 4, "  ") for rule in rules]
    if verb.safety:
        lines += ["", wrapped("safety: " + verb.safety, 8, "")]
    if verb.examples:
        lines += ["", "examples:"]
        for command, meaning in verb.examples:
            lines += [f"  {command}", wrapped(meaning, 6)]
    return "\n".join(lines) + "\n"


def _usage(verb: Verb) -> str:
    forms = {"1": "{}", "?": "[{}]", "*": "[{}...]", "+": "{}...", "remainder": "-- {}..."}
    return " ".join(forms[arg.nargs].format(arg.name) for arg in verb.args)


def _flag(flag: Flag) -> "list[str]":
    kind = flag.type
    name = flag.name if flag.short in (None, flag.name) else f"{flag.short}, {flag.name}"
    if kind is None:
        return [_item(name, flag.help)]
    facts = ["required"] if flag.required else []
    if flag.default is not None:
        unit = " s" if kind.unit == "seconds" else ""
        facts.append(f"default {_shown(flag.default)}{unit}")
    if kind.none:
        facts.append("default none" if flag.default is None else "none: no limit")
    if flag.repeat:
        facts.append("may be repeated")
    lines = [_item(f"{name} {_placeholder(kind)}", flag.help + (f" ({'; '.join(facts)})" if facts else ""))]
    if kind.choices:
        lines.append(wrapped("one of " + ", ".join(kind.choices), 26))
    return lines


def _rules(verb: Verb) -> "list[str]":
    rules = []
    if verb.one_of:
        rules.append("one of " + ", ".join(verb.spelled(dest) for dest in verb.one_of) + " is needed")
    rules += [f"not together: {verb.spelled(a)} and {verb.spelled(b)}" for a, b in verb.exclusive]
    for dest, needed in verb.needs.items():
        rules.append(f"{verb.spelled(dest)} needs {' or '.join(map(verb.spelled, needed))}")
    return rules


def overview(specs: "dict[str, Verb]") -> str:
    """The help of the tool: every verb with its summary."""
    lines = [
        "usage: spoolctl [--db PATH] [--json] VERB [FLAGS] [ARGS]",
        "",
        wrapped("A job queue for shell commands in one SQLite file: no daemon, crash-safe.", 0),
        "",
        "verbs:",
    ]
    lines += [_item(name, verb.summary, 20) for name, verb in specs.items()]
    lines += [
        "",
        "global flags:",
        _item("--json", "answer with one JSON document", 20),
        _item("--db PATH", "the database (else SPOOLCTL_DB, the config, .spoolctl/queue.db)", 20),
        _item("--version", "print the version", 20),
        _item("-h, --help", "this help; spoolctl VERB --help for a verb's", 20),
        "",
        "start with:",
        "  spoolctl add -- echo hello",
        "  spoolctl work --drain",
        "  spoolctl output 1",
    ]
    return "\n".join(lines) + "\n"
