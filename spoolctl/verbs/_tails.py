"""The ends of an attempt's two streams, as `feedback` and `wait` answer them."""

from ..contract.states import STREAMS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..paths import Spool
    from ..store.db import Row


def shape() -> "Row":
    from ..contract import shapes as s

    stream = s.obj(tail=s.STR, size_bytes=s.COUNT, truncated=s.BOOL, missing=s.BOOL, path=s.nullable(s.STR))
    return s.obj(stdout=stream, stderr=stream)


def tails(spool: "Spool", attempt: "Row | None", most: int) -> "Row":
    """The end of each stream: `path` null before there was an attempt, `missing` when the file is gone."""
    from ..store import attempts
    from ..work import preview

    places = attempts.paths(spool, attempt) if attempt else (None, None)
    streams: "Row" = {}
    for name, path in zip(STREAMS, places, strict=True):
        piece = preview.tail(path, most) if path else None
        streams[name] = {
            "tail": piece.text if piece else "",
            "size_bytes": piece.size if piece else 0,
            "truncated": piece.cut if piece else False,
            "missing": path is not None and piece is None,
            "path": path,
        }
    return streams
