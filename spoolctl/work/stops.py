"""Signals to a worker. Handlers only count; the loop asks (SPEC 5).

Signals that were ignored when the worker started get a handler that does nothing, so that exec resets
them for the jobs while the worker goes on ignoring them.
"""

import os
import signal

STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def _nothing(number: int, frame: object) -> None:
    """Being handled is enough: exec resets it, and SIGCHLD wakes the loop."""


class Stops:
    """`count`: how often the worker was told to stop. `fd` is readable after any signal."""

    def __init__(self) -> None:
        self.count = 0
        self.fd, self._write = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self._write, False)
        self._before: "dict[int, object]" = {}
        self._wakeup = -1
        self._children = False

    def install(self) -> None:
        """Take over; main thread only."""
        self._wakeup = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        for number in signal.valid_signals():
            if number in (signal.SIGKILL, signal.SIGSTOP):
                continue
            # TERM is always heard: whoever ends a service has nothing else to say.
            ignored = signal.getsignal(number) == signal.SIG_IGN and number != signal.SIGTERM
            if number == signal.SIGCHLD:
                self._set(number, signal.SIG_DFL)  # ignored, the kernel would reap our children itself
            elif ignored and number != signal.SIGPIPE:
                self._set(number, _nothing)
            elif number in STOPPING:
                self._set(number, self._told)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])

    def watch_children(self) -> None:
        """Be woken by SIGCHLD, where a child's end has no descriptor of its own."""
        if not self._children:
            self._children = True
            signal.signal(signal.SIGCHLD, _nothing)

    def _set(self, number: int, handler: object) -> None:
        self._before[number] = signal.signal(number, handler)  # type: ignore[arg-type]

    def _told(self, number: int, frame: object) -> None:
        self.count += 1

    def drain(self) -> None:
        """Empty the wake-up pipe."""
        try:
            while len(os.read(self.fd, 4096)) == 4096:
                pass
        except BlockingIOError:
            pass

    def restore(self) -> None:
        signal.set_wakeup_fd(self._wakeup)
        for number, handler in self._before.items():
            if self.count and number in STOPPING:
                continue  # told again on its way out: the answer is still to be given
            signal.signal(number, handler)  # type: ignore[arg-type]
        os.close(self.fd)
        os.close(self._write)
