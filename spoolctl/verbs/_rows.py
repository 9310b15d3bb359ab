"""From the lines of `add --from` to rows to stage: what lines have in common is worked out and checked once.

A JSON line whose other keys were met before is only checked in its command, its key and its note. That way
takes nothing that the long one refuses: where it has a doubt, the long one decides and words the refusal.
"""

from .. import clock, jsontext
from ..contract.addflags import FLAGS
from ..contract.types import BadValue
from ..errors import SpoolctlError
from . import _job, _lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..context import Context
    from ..store.bulk import Stage
    from ..store.db import Row

    Staged = tuple[object, ...]

# So many kinds of lines are remembered, and no longer ones: memory is bounded, whatever the lines are.
_KINDS, _MARK_MAX = 1000, 1000

_OWN = frozenset(("argv", "command", "key", "note"))
_OPTIONS = {flag.dest: flag.type for flag in FLAGS if flag.type and flag.dest in _OWN}


class Kind:
    """What lines have that differ in nothing but their command, key and note."""

    __slots__ = ("env", "key", "note", "queue", "shape", "tags")

    def __init__(self, one: "_job.Submission", shape: int) -> None:
        self.shape = shape
        self.queue, self.env = one.row["queue"], one.row["env"]
        self.key, self.note = one.row["key"], one.row["note"]
        self.tags = list(one.tags.items())


class Rows:
    """Makes the rows of one call."""

    def __init__(self, stage: "Stage", base: "Row", ctx: "Context") -> None:
        self.stage, self.base, self.ctx = stage, base, ctx
        self.now, self.captured = clock.now(), _job.captured(ctx)
        self.shapes: "dict[str, int]" = {}
        self.plain = self._kind(self._submission(base, ["sh"]))
        self.kinds = {"{}": self.plain}

    def _submission(self, values: "Row", argv: "list[str]") -> "_job.Submission":
        return _job.submission(values, argv, self.ctx, self.now, self.captured)

    def _kind(self, one: "_job.Submission") -> Kind:
        from ..store.bulk import SHARED

        shared = tuple(map(one.row.__getitem__, SHARED))
        mark = f"{one.scope} {shared!r}"  # not the values: of these 1 equals 1.0
        shape = self.shapes.get(mark)
        if shape is None:
            if len(self.shapes) >= _KINDS:
                self.shapes.clear()
            shape = self.shapes[mark] = self.stage.shape(one.scope, shared)
        return Kind(one, shape)

    def shell(self, n: int, number: int, text: str) -> "Staged":
        """The row of a line that is a shell command. Raises INVALID_INPUT."""
        if "\0" in text:
            raise _lines.bad(number, "a command must not hold a NUL")
        plain = self.plain
        argv = f'["sh","-c",{jsontext.quote(text)}]'
        return n, number, plain.shape, plain.queue, argv, None, plain.env, plain.key, plain.note

    def json(self, n: int, number: int, text: str) -> "tuple[Staged, list[tuple[str, str]]]":
        """(row, tags) of a line that is a JSON object. Raises INVALID_INPUT."""
        try:
            item = _lines.item(text)
            rest = {name: value for name, value in item.items() if name not in _OWN}
            mark = repr(rest)
            kind = self.kinds.get(mark)
            own = None if kind is None or "\\u0000" in text else _own(item, kind)
            if kind is None or own is None:
                one = self._submission(*_lines.asked(item, self.base))
                kind = self._kind(one)
                own = one.row["argv"], one.row["key"], one.row["note"]
                if len(mark) <= _MARK_MAX:
                    self._remember(mark, kind)
        except SpoolctlError as error:
            raise _lines.bad(number, error.message) from None
        except BadValue as wrong:
            raise _lines.bad(number, wrong.message, wrong.did_you_mean) from None
        except ValueError as error:
            raise _lines.bad(number, str(error)) from None
        argv, key, note = own
        return (n, number, kind.shape, kind.queue, argv, None, kind.env, key, note), kind.tags

    def _remember(self, mark: str, kind: Kind) -> None:
        if len(self.kinds) >= _KINDS:
            self.kinds.clear()
        kind.key, kind.note = self.plain.key, self.plain.note
        self.kinds[mark] = kind


def _own(item: "Row", kind: Kind) -> "tuple[str, object, object] | None":
    """(argv as stored, key, note) of a line without NUL; None where it takes a closer look."""
    argv, command = item.get("argv"), item.get("command")
    if argv is None and type(command) is str and command:
        argv = ["sh", "-c", command]
    elif command is not None or type(argv) is not list or not argv or not argv[0]:
        return None
    try:
        return jsontext.words(argv), _text("key", item, kind.key), _text("note", item, kind.note)
    except (BadValue, TypeError):
        return None


def _text(name: str, item: "Row", default: object) -> object:
    if name not in item:
        return default
    value = item[name]
    return None if value is None else _OPTIONS[name].check(value)
