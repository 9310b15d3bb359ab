"""JSON text: a small writer equal to `json.dumps`, and a reader that imports json when called.

Importing json costs a third of a bare interpreter start (mostly `re`), and every call is a process.
Inside spoolctl text is UTF-8 with undecodable bytes as lone surrogates (PEP 383); `dumps` keeps
those exactly (what is stored), `shown` prints U+FFFD in their place (what is answered).
"""

try:
    from _json import encode_basestring_ascii
except ImportError:  # not CPython

    def encode_basestring_ascii(str: str, /) -> str:
        import json

        return json.encoder.encode_basestring_ascii(str)


quote = encode_basestring_ascii  # the JSON of a text; TypeError for all else


# Deeper values are refused where they come in: writing one recurses, and Pythons differ in how far.
DEEPEST = 500


def plain(text: str) -> str:
    """`text` with U+FFFD for every byte that is not UTF-8 (and for lone surrogates)."""
    if text.isascii():
        return text
    try:
        text.encode()
        return text
    except UnicodeEncodeError:
        pass
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    except UnicodeEncodeError:  # a surrogate that stands for no byte
        return "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in text)


def _quote_shown(text: str) -> str:
    return quote(plain(text))


def _float(value: float) -> str:
    if value != value or value in (float("inf"), float("-inf")):
        raise ValueError("JSON has no NaN and no infinity")
    return float.__repr__(value)


def _write(value, out, quote, sort, comma, colon) -> None:  # type: ignore[no-untyped-def]
    if isinstance(value, str):
        out(quote(value))
    elif value is None:
        out("null")
    elif value is True:
        out("true")
    elif value is False:
        out("false")
    elif isinstance(value, int):
        out(int.__repr__(value))
    elif isinstance(value, float):
        out(_float(value))
    elif isinstance(value, dict):
        separator = "{"
        for key in sorted(value, key=plain) if sort else value:
            out(separator)
            out(quote(key))
            out(colon)
            _write(value[key], out, quote, sort, comma, colon)
            separator = comma
        out("}" if separator is comma else "{}")
    elif isinstance(value, (list, tuple)):
        separator = "["
        for item in value:
            out(separator)
            _write(item, out, quote, sort, comma, colon)
            separator = comma
        out("]" if separator is comma else "[]")
    else:
        raise TypeError(f"not a JSON value: {type(value).__name__}")


def _text(value: object, quote: object, sort: bool, comma: str, colon: str, end: str = "") -> str:
    parts: "list[str]" = []
    _write(value, parts.append, quote, sort, comma, colon)
    parts.append(end)  # here, and not to the whole: an answer can be megabytes
    return "".join(parts)


def dumps(value: object) -> str:
    """Equal to `json.dumps(value)`; keys must be str. Raises TypeError, ValueError (nan, inf)."""
    return _text(value, quote, False, ", ", ": ")


def compact(value: object) -> str:
    """Equal to `json.dumps(value, separators=(",", ":"))`: what is stored.

    Raises TypeError, ValueError (nan, inf, nested too deeply).
    """
    try:
        text = _text(value, quote, False, ",", ":")
    except RecursionError:
        raise ValueError("nested too deeply") from None
    _check_depth(text, value)
    return text


def words(value: "list[str]") -> str:
    """As `compact`, for a list of text alone, and far faster. Raises TypeError."""
    return f"[{','.join(map(quote, value))}]"


def shown(value: object, end: str = "") -> str:
    """As `dumps`, with U+FFFD for what is not UTF-8: what is answered. `end` follows it."""
    return _text(value, _quote_shown, False, ", ", ": ", end)


def canonical(value: object) -> str:
    """Sorted keys, `,` and `:`, ASCII: what `data_hash` is taken over (SPEC 2.1)."""
    return _text(value, _quote_shown, True, ",", ":")


def _check_depth(text: str, value: object) -> None:
    """Raise ValueError when `value`, whose JSON is `text`, nests deeper than DEEPEST."""
    if text.count("[") + text.count("{") <= DEEPEST:
        return
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > DEEPEST + 1:
            raise ValueError("nested too deeply")
        level = [
            item
            for outer in level
            if isinstance(outer, (dict, list, tuple))
            for item in (outer.values() if isinstance(outer, dict) else outer)
        ]


_decoder = None  # json's, once something was read


def _refuse(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _finite(digits: str) -> float:
    value = float(digits)
    if value in (float("inf"), float("-inf")):  # nothing could write it back
        raise ValueError(f"{digits[:40]} is too large")
    return value


def loads(text: str) -> object:
    """Parse JSON. Raises ValueError for anything that is not JSON (NaN and infinities too), for numbers
    that become infinite, and for what is nested too deeply."""
    global _decoder
    if _decoder is None:
        import json

        _decoder = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)
    value, end = None, -1
    try:
        try:
            value, end = _decoder.scan_once(text, 0)  # type: ignore[attr-defined]
        except StopIteration:
            pass
        if end != len(text):  # blanks around it, or no JSON: `decode` looks for them, which takes longer
            value = _decoder.decode(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    _check_depth(text, value)
    return value
