"""The lines of `add --from`: reading them, and what one JSON line asks for."""

import os

from .. import jsontext, paths
from ..contract import limits
from ..contract.addflags import COMMANDS, FLAGS, SPELLINGS
from ..contract.types import BadValue
from ..errors import SpoolctlError, invalid, nearest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..store.db import Row

_BLOCK = 65_536  # bytes read at once
_BLANK = " \t\r\v\f"  # the blanks of ASCII, and no other

_FLAGS = {flag.dest: flag for flag in FLAGS}
_KEYS = (*COMMANDS, *_FLAGS, *SPELLINGS)


def bad(line: int, problem: str, did_you_mean: "str | None" = None) -> SpoolctlError:
    message = f"--from: line {line}: {problem}; nothing was added"
    return SpoolctlError("INVALID_INPUT", message, "spoolctl add --help", {"line": line}, did_you_mean)


def shown(path: str, number: int) -> "str | None":
    """The command that shows a line of the file, None for what can be read only once."""
    if not os.path.isfile(paths.raw(path)):
        return None
    from ..terminal import quoted

    return f"sed -n {number}p {quoted(paths.operand(path))}"


def read(path: str, stdin: int) -> "Iterator[list[tuple[int, str]]]":
    """(number, text) of every line that says something, without its end and the blanks before it.

    They come as they are read, many at once. Raises INVALID_INPUT for a file that cannot be read and for a
    line without end.
    """
    try:
        fd = stdin if path == "-" else os.open(paths.raw(path), os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise _unreadable(path, error) from None
    number, parts, size = 0, [], 0  # parts: pieces of the line whose end is still to come
    try:
        while True:
            try:
                chunk = os.read(fd, _BLOCK)
            except OSError as error:
                raise _unreadable(path, error) from None
            end = chunk.rfind(b"\n") + 1 if chunk else 0
            parts.append(chunk[:end] if end else chunk)
            size += len(chunk)
            if chunk and not end:
                if size > limits.LINE_MAX:
                    raise bad(number + 1, f"longer than {limits.LINE_MAX} bytes")
                continue
            whole = b"".join(parts)
            parts, size = [chunk[end:]], len(chunk) - end
            if number == 0:
                whole = whole.removeprefix(b"\xef\xbb\xbf")
            lines = _split(whole, number + 1)
            number += whole.count(b"\n")
            yield lines
            if not chunk:
                return
    finally:
        if fd != stdin:
            os.close(fd)


def _split(whole: bytes, number: int) -> "list[tuple[int, str]]":
    """What the lines say, the first of which has this number."""
    found = []
    for count, line in enumerate(whole.decode("utf-8", "surrogateescape").split("\n"), number):
        text = line.lstrip(_BLANK).rstrip("\r")
        if text and text[0] != "#":
            found.append((count, text))
    return found


def _unreadable(path: str, error: OSError) -> SpoolctlError:
    return invalid(
        f"--from: {path!r}: {error.strerror}; name a file that can be read, or -",
        "spoolctl add --help" if path == "-" else paths.look(path),
        flag="--from",
        value=path,
    )


def item(text: str) -> "Row":
    """What a JSON line says. Raises ValueError."""
    try:
        found = jsontext.loads(text)
    except ValueError as error:
        raise ValueError(f"starts with {{ and is no JSON object: {error}") from None
    assert isinstance(found, dict)
    if "\\ud" in text or "\\uD" in text:
        _refuse_halves(found)
    return found


def asked(item: "Row", base: "Row") -> "tuple[Row, list[str]]":
    """(flag values, argv) of a JSON line; what it does not say is as in `base`.

    Raises ValueError or BadValue with the problem; the caller knows the line's number.
    """
    values = dict(base)
    said: "set[str]" = set()
    argv: "list[str] | None" = None
    for name, value in item.items():
        if value is None and name in ("argv", "command", "tags", "tag", "env", "keep_children"):
            continue
        if name in COMMANDS:
            if argv is not None:
                raise ValueError("argv and command exclude each other")
            argv = _command(name, value)
            continue
        dest = SPELLINGS.get(name, name)
        if dest not in _FLAGS:
            raise BadValue(f"unknown key {name[:200]!r}", nearest(name[:200], _KEYS))
        if dest in said:
            raise ValueError(f"{name} stands there twice")
        said.add(dest)
        try:
            values[dest] = _value(dest, value, base)
        except BadValue as wrong:
            raise BadValue(f"{name} {wrong.message}", wrong.did_you_mean) from None
    if argv is None:
        raise ValueError("needs argv or command")
    after, at = item.get("after"), item.get("at")
    if after is not None and at is not None:
        raise ValueError("after and at exclude each other")
    if after is not None:
        values["at"] = None
    elif at is not None:
        values["after"] = None
    return values, argv


def _value(dest: str, value: object, base: "Row") -> object:
    flag = _FLAGS[dest]
    if flag.type is None:
        if not isinstance(value, bool):
            raise BadValue("must be true or false")
        return value
    if flag.repeat:
        pairs = _pairs(flag.type, value)
        own = {key for key, _ in pairs}
        return [pair for pair in base[dest] if pair[0] not in own] + pairs
    if value is None and not flag.type.none:
        return None if flag.default is None else base[dest]
    return flag.type.check(value)


def _refuse_halves(item: object) -> None:
    """Refuse text with half a character of UTF-16 (an escape alone): no program can be given that."""
    import json

    try:
        paths.raw(json.dumps(item, ensure_ascii=False))
    except UnicodeEncodeError:
        raise ValueError("a \\u escape stands for half a character") from None


def _command(name: str, value: object) -> "list[str]":
    if name == "command":
        if not isinstance(value, str) or not value or "\0" in value:
            raise ValueError("command must be text that is not empty, without NUL")
        return ["sh", "-c", value]
    if (
        not isinstance(value, list)
        or not value
        or not all(isinstance(word, str) and "\0" not in word for word in value)
    ):
        raise ValueError("argv must be a list of words without NUL")
    if not value[0]:
        raise ValueError("argv: the first word is empty")
    return value


def _pairs(kind: object, value: object) -> "list[tuple[str, object]]":
    if isinstance(value, dict):
        pairs = []
        for key, item in value.items():
            if item is not None and not isinstance(item, str):
                raise BadValue("must have text values")
            pairs.append(kind.pair(key, item))  # type: ignore[attr-defined]
    elif isinstance(value, list):
        pairs = [kind.check(item) for item in value]  # type: ignore[attr-defined]
    elif isinstance(value, str):
        pairs = [kind.parse(value)]  # type: ignore[attr-defined]
    else:
        raise BadValue("must be an object or a list")
    return pairs
