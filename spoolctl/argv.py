"""Tokens and a Verb in, values out, or one error that names the bad token (SPEC 2.3).

Refusals come in the contract's order: syntax of the whole line, then values in the order given,
then exclusions. Flags are never abbreviated.
"""

from .contract.spec import BEFORE_VERB, Args, Flag, Verb
from .contract.types import BadValue, Type
from .errors import SpoolctlError, invalid, nearest

GLOBAL_FLAGS = tuple(word for flag in BEFORE_VERB for word in (flag.name, flag.short) if word)


def wants_json(tokens: "list[str]") -> bool:
    """Whether `--json` (or `--json=…`, itself an error) stands before the first `--`."""
    for token in tokens:
        if token == "--":
            return False
        if token == "--json" or token.startswith("--json="):
            return True
    return False


def looks_like_flag(token: str) -> bool:
    """A dash and something that is not a negative number."""
    return len(token) > 1 and token[0] == "-" and not (token[1].isdigit() or token[1:2] == ".")


def split_verb(tokens: "list[str]") -> "tuple[str | None, list[str]]":
    """(verb or None, the verb's tokens with the flags that stood before it in front).

    Raises UNKNOWN_FLAG, INVALID_INPUT.
    """
    before: "list[str]" = []
    i = 0
    while i < len(tokens):
        token = tokens[i]
        if token == "--":
            raise invalid("'--' stands before the verb: put the verb first", "spoolctl --help", value="--")
        if not looks_like_flag(token):
            return token, before + tokens[i + 1 :]
        name, equals, _ = token.partition("=")
        if name not in GLOBAL_FLAGS:
            raise SpoolctlError(
                "UNKNOWN_FLAG",
                f"unknown flag {name} before the verb",
                "spoolctl --help",
                did_you_mean=nearest(name, GLOBAL_FLAGS),
            )
        before.append(token)
        i += 1
        if name == "--db" and not equals:
            if i == len(tokens) or tokens[i].partition("=")[0] in (*GLOBAL_FLAGS, "--"):
                raise invalid("--db needs a value: --db PATH", "spoolctl --help", flag="--db", value=None)
            before.append(tokens[i])
            i += 1
    return None, before


def parse(verb: Verb, tokens: "list[str]") -> Args:
    """The values of `tokens`. `args.help` true means that help was asked for and nothing else counts.

    Raises SpoolctlError (UNKNOWN_FLAG, INVALID_INPUT, MISSING_REQUIRED).
    """
    given, words = _split(verb, tokens)
    args = Args()
    for flag in verb.flags:
        default = [] if flag.repeat else flag.default if flag.type else False
        setattr(args, flag.dest, default)
    if given and given[-1][0].dest == "help":
        args.help = True
        return args
    _check_required(verb, given, words)
    for flag, text in given:
        args.given.add(flag.dest)
        if flag.type is None:
            setattr(args, flag.dest, True)
            continue
        assert text is not None
        value = _value(verb, flag.name, flag.type, text)
        if flag.repeat:
            getattr(args, flag.dest).append(value)
        else:
            setattr(args, flag.dest, value)
    _positionals(verb, words, args)
    _exclusions(verb, args)
    return args


def _split(verb: Verb, tokens: "list[str]") -> "tuple[list[tuple[Flag, str | None]], list[str]]":
    """(flags with the text of their value, words), by syntax alone; ends at --help."""
    known = {}
    for flag in verb.flags:
        known[flag.name] = flag
        if flag.short:
            known[flag.short] = flag
    remainder = bool(verb.args) and verb.args[-1].nargs == "remainder"
    given: "list[tuple[Flag, str | None]]" = []
    words: "list[str]" = []
    seen: "set[str]" = set()
    rest = tokens[::-1]
    while rest:
        token = rest.pop()
        if token == "--":
            # The first `--` opens the argv; behind a first word it belongs to it.
            words += ["--"] if remainder and words else []
            words += rest[::-1]
            break
        if not looks_like_flag(token):
            words.append(token)
            continue
        if remainder and words:
            raise invalid(
                f"{token} after the first word is ambiguous: write -- before the command",
                _with_dashes(verb, known, tokens, len(tokens) - len(rest) - 1 - len(words)),
                value=token,
            )
        flag, text = _flag(verb, known, seen, token, rest)
        given.append((flag, text))
        if flag.dest == "help":
            break
    return given, words


def _with_dashes(verb: Verb, known: "dict[str, Flag]", tokens: "list[str]", first: int) -> str:
    """The line with `--` at `first`, where it can mean nothing else: no word behind is a flag of ours."""
    before, command = tokens[:first], tokens[first:]
    usage = f"spoolctl {verb.name} --help"
    if any(word.partition("=")[0] in known for word in command):
        return usage
    try:
        parse(verb, [*before, "--", *command])
    except SpoolctlError:
        return usage
    from .terminal import line_of

    words = [verb.name, *(word for word in before if word != "--json"), "--", *command]
    return line_of(["spoolctl", *words]) or usage


def _flag(
    verb: Verb, known: "dict[str, Flag]", seen: "set[str]", token: str, rest: "list[str]"
) -> "tuple[Flag, str | None]":
    """The flag that `token` names, with its value, taken from the end of `rest` where it stands apart."""
    name, equals, text = token.partition("=")
    flag = known.get(name)
    if flag is None:
        raise SpoolctlError(
            "UNKNOWN_FLAG",
            f"{verb.name} has no flag {name}",
            f"spoolctl {verb.name} --help",
            did_you_mean=nearest(name, list(known)),
        )
    name, usage = flag.name, f"spoolctl {verb.name} --help"
    if name in seen and not flag.repeat:
        raise invalid(f"{name} is given twice: give it once", usage, flag=name, value=token)
    seen.add(name)
    if flag.type is None:
        if equals:
            raise invalid(f"{name} takes no value: write {name} alone", usage, flag=name, value=text)
        return flag, None
    if equals:
        return flag, text
    if not rest or rest[-1] == "--" or rest[-1].partition("=")[0] in known:
        message = f"{name} needs a value: {name}=VALUE, where VALUE is {flag.type.grammar}"
        raise invalid(message, usage, flag=name, value=None)
    return flag, rest.pop()


def _check_required(verb: Verb, given: "list[tuple[Flag, str | None]]", words: "list[str]") -> None:
    names = {flag.dest for flag, _ in given}
    many = sum(len(words) if arg.nargs in ("*", "+", "remainder") else 1 for arg in verb.args)
    if len(words) > many:
        raise invalid(
            f"unexpected argument {words[many]!r}", f"spoolctl {verb.name} --help", value=words[many]
        )
    usage = f"spoolctl {verb.name} --help"
    for arg in verb.args:
        if arg.nargs in ("1", "+") and not words:
            raise SpoolctlError("MISSING_REQUIRED", f"{verb.name} needs {arg.name}", usage)
    for flag in verb.flags:
        if flag.required and flag.dest not in names:
            raise SpoolctlError("MISSING_REQUIRED", f"{verb.name} needs {flag.name}", usage)
    if verb.one_of:
        positional = {arg.dest for arg in verb.args} if words else set()
        if not (names | positional) & set(verb.one_of):
            raise SpoolctlError("MISSING_REQUIRED", f"{verb.name} needs {_spelled(verb, verb.one_of)}", usage)


def _positionals(verb: Verb, words: "list[str]", args: Args) -> None:
    rest = list(words)
    for arg in verb.args:
        many = arg.nargs in ("*", "+", "remainder")
        taken = rest if many else rest[:1]
        rest = [] if many else rest[1:]
        if taken:
            args.given.add(arg.dest)
        values = [_value(verb, arg.name, arg.type, text) for text in taken]
        setattr(args, arg.dest, values if many else values[0] if values else None)


def _value(verb: Verb, name: str, kind: Type, text: str) -> object:
    """The value of flag or argument `name`; a refusal names the text (cut to 200 characters)."""
    try:
        return kind.parse(text)
    except BadValue as bad:
        short = text if len(text) <= 200 else text[:197] + "..."
        raise invalid(
            f"{name}: {bad.message}: {short!r}",
            f"spoolctl {verb.name} --help",
            bad.did_you_mean,
            flag=name,
            value=short,
            **bad.facts,
        ) from None


def _spelled(verb: Verb, dests: "tuple[str, ...]") -> str:
    return " or ".join(verb.spelled(dest) for dest in dests)


def _wanted(verb: Verb, dest: str) -> str:
    flag = verb.flag(dest)
    return f"{flag.name} {flag.type.grammar}" if flag and flag.type else verb.spelled(dest)


def _exclusions(verb: Verb, args: Args) -> None:
    usage = f"spoolctl {verb.name} --help"
    for a, b in verb.exclusive:
        if a in args.given and b in args.given:
            raise invalid(
                f"{verb.spelled(a)} and {verb.spelled(b)} exclude each other: give one of them",
                usage,
                flag=verb.spelled(b),
                value=None,
            )
    for dest, needed in verb.needs.items():
        if dest in args.given and not args.given.intersection(needed):
            raise invalid(
                f"{verb.spelled(dest)} needs {_spelled(verb, needed)}: add {_wanted(verb, needed[0])}",
                usage,
                flag=verb.spelled(dest),
                value=None,
            )
