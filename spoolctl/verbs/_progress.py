"""One line on stderr that says how far it is: on a terminal and in text mode only."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..context import Context


class Progress:
    """A line that is written over itself; `say` puts a lasting line above it. Nothing here waits."""

    def __init__(self, ctx: "Context") -> None:
        self.ctx = ctx
        self.on = not ctx.json and ctx.err.isatty()
        self.shown = ""

    def show(self, line: str) -> None:
        """Replace the line, if there is a terminal to show it on."""
        if self.on and line != self.shown:
            self.ctx.err.try_write(f"\r{line.ljust(len(self.shown))}".encode())
            self.shown = line

    def clear(self) -> None:
        if self.shown:
            self.ctx.err.try_write(f"\r{' ' * len(self.shown)}\r".encode())
            self.shown = ""

    def say(self, line: str) -> bool:
        """A line of its own, in text mode wherever stderr goes; False when stderr did not take it."""
        self.clear()
        return self.ctx.try_note(line)
