"""The only writer of stdout and stderr: text, envelopes, frames, raw bytes.

A reader that went away (EPIPE) is no error: `ReaderGone` ends the call quietly with exit 0.
"""

import os

from . import CONTRACT_VERSION, __version__, clock, jsontext
from .errors import SpoolctlError


class ReaderGone(Exception):
    """Nobody reads stdout any more."""


class FdSink:
    """Bytes straight to a descriptor: no buffer that a crash could lose."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._prompt: "int | None" = None

    def write(self, data: bytes) -> None:
        """Write all of `data`. Raises ReaderGone, OSError."""
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self.fd, view) :]
            except BrokenPipeError:
                raise ReaderGone from None
            except BlockingIOError:
                import select

                select.select([], [self.fd], [])
            except OSError as error:
                # Not DISK_FULL, which asks for another try: what the call was for has been done.
                message = f"the answer could not be written: {error.strerror}; what was asked for was done"
                raise SpoolctlError("INTERNAL", message, "spoolctl status") from None

    def isatty(self) -> bool:
        try:
            return os.isatty(self.fd)
        except OSError:
            return False

    def try_write(self, data: bytes) -> bool:
        """Write if the reader takes it now, else drop it: for progress, which must never wait.

        A pipe that polls writable takes PIPE_BUF bytes at least, so short lines do not block.
        """
        import select

        try:
            fd = self._unwaiting()
            poller = select.poll()
            poller.register(fd, select.POLLOUT)
            ready = poller.poll(0)
            if not ready or ready[0][1] & (select.POLLERR | select.POLLHUP | select.POLLNVAL):
                return False
            os.write(fd, data[:4096])
            return True
        except OSError:
            return False

    def _unwaiting(self) -> int:
        """A descriptor for writes that do not wait. A terminal that polls writable may have room for a byte:
        it is opened anew, since the flag on our own descriptor would be everybody's who has it."""
        if self._prompt is None:
            self._prompt = self.fd
            if self.isatty():
                flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
                try:
                    self._prompt = os.open(os.ttyname(self.fd), flags)
                except OSError:
                    pass  # a terminal of somebody else's
        return self._prompt


def _sha256(data: bytes) -> str:
    """The hex digest. hashlib costs 2.4 ms and 3.6 MiB of OpenSSL; the built-in module does not."""
    try:
        from _sha2 import sha256  # type: ignore[import-not-found]
    except ImportError:
        try:
            from _sha256 import sha256  # type: ignore[import-not-found]
        except ImportError:
            from hashlib import sha256
    return sha256(data).hexdigest()


def data_hash(data: object) -> str:
    return "sha256:" + _sha256(jsontext.canonical(data).encode("ascii"))


def envelope(
    data: object,
    elapsed_ms: int,
    pagination: object = None,
    wait: object = None,
    warnings: "list[tuple[str, str]] | tuple[()]" = (),
    commands: "list[str] | tuple[()]" = (),
    error: "SpoolctlError | None" = None,
) -> bytes:
    """One answer as bytes with a final newline (SPEC 2.1)."""
    meta: "dict[str, object]" = {
        "request_id": "req_" + os.urandom(6).hex(),
        "ts_iso": clock.iso(clock.now()),
        "elapsed_ms": elapsed_ms,
        "contract_version": CONTRACT_VERSION,
        "data_hash": data_hash(data),
    }
    if pagination is not None:
        meta["pagination"] = pagination
    if wait is not None:
        meta["wait"] = wait
    errors = []
    if error is not None:
        errors.append(
            {
                "code": error.code,
                "message": error.message,
                "remediation": error.remediation,
                "exit_code": error.exit_code,
                "detail": error.detail,
                "did_you_mean": error.did_you_mean,
            }
        )
    document = {
        "ok": error is None,
        "tool_version": __version__,
        "data": data,
        "meta": meta,
        "warnings": [{"code": code, "message": message} for code, message in warnings],
        "commands": list(commands)[:3],
        "errors": errors,
    }
    return jsontext.shown(document, "\n").encode("ascii")


def frame(value: object) -> bytes:
    """One line of a stream."""
    return jsontext.shown(value, "\n").encode("ascii")


def text(value: str) -> bytes:
    """Text for people: UTF-8 whatever the locale, U+FFFD for what is not."""
    return jsontext.plain(value).encode("utf-8")


def error_text(error: SpoolctlError, hint: bool = True) -> bytes:
    lines = f"spoolctl: {error.code}: {printable(error.message)}\n"
    if hint:
        lines += f"hint: {printable(error.remediation)}\n"
    if hint and error.did_you_mean:
        lines += f"did you mean {printable(error.did_you_mean)}?\n"
    return text(lines)


def warning_text(code: str, message: str) -> bytes:
    return note_text(f"warning {code}: {message}")


def note_text(message: str) -> bytes:
    return text(f"spoolctl: {printable(message)}\n")


def printable(value: str) -> str:
    """`value` with control characters escaped, so that a message stays one line."""
    if value.isprintable():
        return value
    from .terminal import escaped

    return escaped(value)
