"""The call that was made as a line to run, with something added or left out."""

from ..terminal import quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..contract.spec import Args, Verb

_REFS = {"id": "{0}", "key": "key:{0}", "range": "{0[0]}-{0[1]}"}


def call(verb: "Verb", args: "Args", more: "tuple[str, ...]" = (), without: "tuple[str, ...]" = ()) -> str:
    """`spoolctl VERB …` with what was given but the dests `without`, and the words `more` after it.

    `--json` and `--db` are left to whoever prints the line.
    """
    words = ["spoolctl", verb.name]
    for arg in verb.args:
        if arg.dest in args.given:
            refs = getattr(args, arg.dest)
            refs = refs if isinstance(refs, list) else [refs]
            words += [_REFS[kind].format(value) for kind, value in refs]
    for flag in verb.flags:
        if flag.dest not in args.given or flag.dest in ("json", "db", *without):
            continue
        value = getattr(args, flag.dest)
        if flag.type is None:
            words.append(flag.name)
        else:
            for item in value if flag.repeat else [value]:
                words += option(flag.name, written(item))
    return " ".join(map(quoted, (*words, *more)))


def option(name: str, value: str) -> "list[str]":
    """A flag with its value, in one word where the value could be taken for a flag itself."""
    return [f"{name}={value}"] if value.startswith("-") else [name, value]


def written(value: object) -> str:
    """A flag's value as it is given; no float with an exponent, which a duration has not."""
    if isinstance(value, float) and "e" in str(value):
        from decimal import Decimal

        return format(Decimal(str(value)), "f")
    if isinstance(value, tuple):
        key, word = value
        return str(key) if word is None else f"{key}={word}"
    return ",".join(value) if isinstance(value, list) else str(value)
