"""Text for people: escaped controls, tables, relative times, colour. Pure functions."""

_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


class View:
    """How text is to look: the moment it is read, the width, and whether colours are shown."""

    __slots__ = ("colour", "now", "width")

    def __init__(self, now: float, width: int = 80, colour: bool = False) -> None:
        self.now = now
        self.width = width
        self.colour = colour


_COLOURS = {
    "done": 32,
    "succeeded": 32,
    "dead": 31,
    "failed": 31,
    "timed_out": 31,
    "running": 36,
    "canceled": 33,
    "pass": 32,
    "warn": 33,
    "fail": 31,
}


def paint(word: str, view: View, padded: "str | None" = None) -> str:
    """A state word in its colour, where colours are shown."""
    shown = padded if padded is not None else word
    code = _COLOURS.get(word)
    return f"\x1b[{code}m{shown}\x1b[0m" if view.colour and code else shown


def escaped(text: str) -> str:
    """Control characters, separators and lone surrogates as escapes, so that a line stays a line."""
    if text.isprintable():
        return text
    out = []
    for char in text:
        if char.isprintable():
            out.append(char)
        elif char in _NAMED:
            out.append(_NAMED[char])
        elif "\udc80" <= char <= "\udcff":
            out.append("\ufffd")
        elif ord(char) < 256:
            out.append(f"\\x{ord(char):02x}")
        else:
            out.append(f"\\u{ord(char):04x}")
    return "".join(out)


def escaped_lines(text: str) -> str:
    """As `escaped`, but lines stay lines and tabs stay tabs."""
    if text.isprintable():
        return text
    return "\n".join("\t".join(escaped(cell) for cell in line.split("\t")) for line in text.split("\n"))


def cut(text: str, width: int) -> str:
    """At most `width` characters, the last three `...` when something was cut."""
    return text if len(text) <= width else text[: max(0, width - 3)] + "..."


def seconds(value: "int | float | None") -> str:
    """A span: 0.4s, 12s, 3m20s, 2h05m, 4d03h."""
    if value is None:
        return "-"
    if value < 10:
        return f"{value:.1f}s"
    whole = int(value)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 86_400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 86_400}d{whole % 86_400 // 3600:02d}h"


def counted(count: int, noun: str) -> str:
    """A number of things: 1 job, 2 jobs."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def size(count: int) -> str:
    """A number of bytes: 812 bytes, 1.5 KiB, 20 MiB."""
    if count < 1024:
        return counted(count, "byte")
    value, units = count / 1024, ["KiB", "MiB", "GiB", "TiB"]
    while value >= 1023.5 and len(units) > 1:
        value /= 1024
        del units[0]
    return f"{value:.1f} {units[0]}" if value < 9.95 else f"{value:.0f} {units[0]}"


def ago(at: "float | None", view: View) -> str:
    """A moment relative to now: `3m20s ago`, `in 12s`."""
    if at is None:
        return "-"
    distance = view.now - at
    return f"{seconds(distance)} ago" if distance >= 0 else f"in {seconds(-distance)}"


def table(head: "list[str]", rows: "list[list[str]]", view: View, state: "int | None" = None) -> str:
    """Columns aligned with two blanks between them; the last one is cut to the width.

    `state` is the index of a column of state words, painted where colours are shown.
    """
    if not rows:
        return ""
    widths = [max(len(line[i]) for line in [head, *rows]) for i in range(len(head))]
    used = sum(widths[:-1]) + 2 * (len(head) - 1)
    lines = []
    for line in [head, *rows]:
        cells = [line[i].ljust(widths[i]) for i in range(len(head) - 1)]
        if state is not None and line is not head:
            cells[state] = paint(line[state], view, cells[state])
        cells.append(cut(line[-1], max(20, view.width - used)))
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines) + "\n"


def quoted(word: str) -> str:
    """A word as a POSIX shell reads it back."""
    safe = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789@%+=:,./_-")
    if word and safe.issuperset(word):
        return word
    return "'" + word.replace("'", "'\"'\"'") + "'"


LONGEST_LINE = 100_000  # bytes: what runs a line hands it on as one argument, which holds 128 KiB


def line_of(words: "list[str] | tuple[str, ...]") -> "str | None":
    """Words as a line that a POSIX shell takes apart again; None for one that is too long to be run."""
    line = " ".join(map(quoted, words))
    return line if len(pasteable(line).encode()) <= LONGEST_LINE else None


def pasteable(command: str) -> str:
    """A command line as one printable line that a POSIX shell runs alike.

    Quotes alone keep line ends and controls, but a terminal does not, and JSON has no bytes that are not
    UTF-8. So the whole line goes through printf: of a word alone `$()` would cut line ends off its end.
    """
    if command.isprintable():
        return command
    out = []
    for char in command:
        if char == "%":
            out.append("%%")
        elif char.isprintable() and char not in "'\"`\\!":  # ! means history where a person pastes
            out.append(char)
        else:
            out += [f"\\{byte:03o}" for byte in char.encode("utf-8", "surrogateescape")]
    return f"""eval "$(printf '{"".join(out)}')\""""
