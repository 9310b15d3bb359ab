"""Reading capture files in bounded memory, whatever their size.

A file is taken as long as it is when it is opened, so that reading ends while a job goes on writing.
"""

import os

from ..paths import raw

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

BLOCK = 65_536
_SPLIT = 3  # bytes of one character that can lie on the other side of a cut


class Piece:
    """A part of a stream as text. `size` is the whole file's; `cut` says that there is more."""

    __slots__ = ("cut", "size", "text")

    def __init__(self, text: str, size: int, cut: bool) -> None:
        self.text = text
        self.size = size
        self.cut = cut


def opened(path: str) -> "tuple[int, int] | None":
    """(descriptor, size) of a capture file, None when it is gone or not for us to read."""
    try:
        fd = os.open(raw(path), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        return None
    info = os.fstat(fd)
    if (info.st_mode & 0o170000) != 0o100000:  # a job can put anything in the place of its files
        os.close(fd)
        return None
    return fd, info.st_size


def head(path: str, most: int) -> "Piece | None":
    """The first `most` bytes, None when the file is gone."""
    found = opened(path)
    if found is None:
        return None
    fd, size = found
    try:
        data = _at(fd, 0, min(size, most + _SPLIT))
    finally:
        os.close(fd)
    end = min(most, len(data))
    if len(data) > most:
        end -= _before(data, most)
    return Piece(_text(data[:end]), size, size > most)


def tail(path: str, most: int) -> "Piece | None":
    """The last `most` bytes, None when the file is gone."""
    found = opened(path)
    if found is None:
        return None
    fd, size = found
    try:
        start = tail_start(fd, size, most)
        data = _at(fd, start, size - start)
    finally:
        os.close(fd)
    return Piece(_text(data), size, size > most)


def tail_start(fd: int, size: int, most: int) -> int:
    """Where the last `most` bytes begin, or behind the character that this cut would split."""
    start = max(0, size - most)
    if start == 0:
        return 0
    first = max(0, start - _SPLIT)
    data = _at(fd, first, start - first + _SPLIT)
    cut = start - first
    back = _before(data, cut)
    return min(size, start + _length(data[cut - back]) - back) if back else start


def copy(fd: int, start: int, end: int, write: "Callable[[bytes], None]") -> None:
    """Pass the bytes from `start` to `end` on, block by block, as they are."""
    while start < end:
        data = os.pread(fd, min(BLOCK, end - start), start)
        if not data:
            return
        write(data)
        start += len(data)


def _at(fd: int, start: int, count: int) -> bytes:
    parts: "list[bytes]" = []
    copy(fd, start, start + count, parts.append)
    return b"".join(parts)


def _length(lead: int) -> int:
    """The length of the character that a first byte announces; 1 for anything else."""
    return 2 if 0xC2 <= lead <= 0xDF else 3 if lead & 0xF0 == 0xE0 else 4 if 0xF0 <= lead <= 0xF4 else 1


def _before(data: bytes, cut: int) -> int:
    """How many bytes before `cut` belong to a character that goes on behind it; 0 when none is split."""
    for back in range(1, min(_SPLIT, cut) + 1):
        length = _length(data[cut - back])
        if length > back:
            try:
                data[cut - back : cut - back + length].decode()
            except UnicodeDecodeError:
                return 0
            return back
        if data[cut - back] & 0xC0 != 0x80:
            return 0
    return 0


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


class Shown:
    """Bytes, block by block, to text for people: U+FFFD for what is not UTF-8.

    `escape`: control characters other than line end and tab are spelled out, so that a job's output
    cannot steer a terminal.
    """

    def __init__(self, write: "Callable[[bytes], None]", escape: bool) -> None:
        import codecs

        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._write = write
        self._escape = escape
        self.in_line = False  # whether the last line is still open

    def feed(self, data: bytes, final: bool = False) -> None:
        text = self._decode(data, final)
        if not text:
            return
        if self._escape:
            from ..terminal import escaped_lines

            text = escaped_lines(text)
        self.in_line = text[-1] != "\n"
        self._write(text.encode())
