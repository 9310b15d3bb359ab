"""The call that was made as a line to run, with something added or left out."""

from ..terminal import line_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..contract.spec import Args, Verb

_REFS = {"key": "key:{0}", "range": "{0[0]}-{0[1]}"}


def call(
    verb: "Verb",
    args: "Args",
    more: "tuple[str, ...]" = (),
    without: "tuple[str, ...]" = (),
    instead: "tuple[str, ...]" = (),
) -> "str | None":
    """`spoolctl VERB …` with what was given but the dests `without`, the words `instead` of its arguments,
    and the words `more` after it; None where that is too long for a line.

    `--json` and `--db` are left to whoever prints the line.
    """
    words = ["spoolctl", verb.name]
    words += instead
    for arg in verb.args:
        if arg.dest in args.given and not instead:
            refs = getattr(args, arg.dest)
            refs = refs if isinstance(refs, list) else [refs]
            words += _written_refs(refs)
    for flag in verb.flags:
        if flag.dest not in args.given or flag.dest in ("json", "db", *without):
            continue
        value = getattr(args, flag.dest)
        if flag.type is None:
            words.append(flag.name)
        else:
            for item in value if flag.repeat else [value]:
                words += option(flag.name, written(item))
    return line_of([*words, *more])


def _written_refs(refs: "list[tuple[str, object]]") -> "Iterator[str]":
    """References to jobs as they are given, in their order, runs of ids as ranges."""
    run: "list[int]" = []
    for kind, value in refs:
        if kind == "id":
            run.append(value)  # type: ignore[arg-type]
            continue
        yield from spans(run)
        run = []
        yield _REFS[kind].format(value)
    yield from spans(run)


def spans(ids: "list[int]") -> "Iterator[str]":
    """Ids as words, in their order; three and more that follow one another as A-B."""
    start = 0
    while start < len(ids):
        end = start
        while end + 1 < len(ids) and ids[end + 1] == ids[end] + 1:
            end += 1
        if end - start > 1:
            yield f"{ids[start]}-{ids[end]}"
        else:
            yield from map(str, ids[start : end + 1])
        start = end + 1


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
