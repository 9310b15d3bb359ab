"""What a verb is given: the environment, the place, the sinks, and the database when it asks for it."""

import os

from . import clock, config, emit, paths, registry
from .contract import env
from .contract.spec import Args, Verb
from .errors import SpoolctlError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .store.db import Db


class Context:
    """One call's surroundings. `out` and `err` are sinks with `write(bytes)`; nothing here is global."""

    def __init__(
        self, environ: "dict[str, str]", out: "emit.FdSink", err: "emit.FdSink", stdin: int = 0
    ) -> None:
        self.environ = environ
        self.out = out
        self.err = err
        self.stdin = stdin
        self.json = False
        self.started = clock.monotonic()
        self.args: "Args | None" = None
        self.warnings: "list[tuple[str, str]]" = []
        self._spool: "paths.Spool | None" = None
        self._cwd: "str | None" = None
        self._config: "config.Config | None" = None
        self._db: "Db | None" = None

    def elapsed_ms(self) -> int:
        return int((clock.monotonic() - self.started) * 1000)

    @property
    def specs(self) -> "dict[str, Verb]":
        return registry.specs()  # type: ignore[return-value]

    @property
    def shapes(self) -> "dict[str, dict[str, object]]":
        """The shapes of every verb's answers, as `registry.shapes` gives them."""
        return registry.shapes()

    def cwd(self) -> str:
        """The current directory as the user sees it: PWD where it names the same directory, so that
        symbolic links are kept (SPEC 5). Raises INVALID_INPUT when it is gone."""
        if self._cwd is None:
            self._cwd = self._here()
        return self._cwd

    def _here(self) -> str:
        try:
            here = os.getcwdb()
        except OSError:
            raise SpoolctlError(
                "INVALID_INPUT", "the current directory does not exist any more: go to one that does", "cd /"
            ) from None
        shown = self.environ.get(env.PWD, "")
        if shown.startswith("/") and "/../" not in shown + "/" and "/./" not in shown + "/":
            try:
                a, b = os.stat(paths.raw(shown)), os.stat(here)
                if (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino):
                    return shown
            except (OSError, ValueError):
                pass
        return paths.text(here)

    def config(self) -> "config.Config":
        """The project's config. Raises INVALID_INPUT when it is malformed."""
        if self._config is None:
            self._resolve_project()
        assert self._config is not None
        return self._config

    def _resolve_project(self) -> None:
        self._project, self._stranger = paths.project(self.cwd(), os.geteuid())
        path = config.path_in(self._project)
        self._config = config.Config(path) if self._stranger else config.load(path)

    def spool(self) -> "paths.Spool":
        """Where the database is. Raises INVALID_INPUT, SAFETY_BLOCK."""
        if self._spool is None:
            settings = self.config()
            self._spool = paths.resolve(
                getattr(self.args, "db", None),
                self.environ.get(env.DB),
                settings.db_path,
                settings.path,
                self.cwd(),
                self._project,
                self._stranger,
            )
        return self._spool

    def db_path(self) -> str:
        return self._spool.db if self._spool else ""

    def reader(self) -> "Db":
        """The database for reading; one that does not exist answers as an empty one."""
        from .store.open import open_reader

        if self._db is None:
            self._db = open_reader(self.spool())
        return self._db

    def writer(self, create: bool = False) -> "Db":
        """The database for writing. Without `create` a missing one answers as an empty one."""
        from .store.open import open_writer

        if self._db is None:
            self._db = open_writer(self.spool(), create)
            if self._db.created:
                self.warnings.append(("DB_CREATED", f"made the database {self.spool().db}"))
        return self._db

    def with_db(self, command: str, takes: bool = True) -> str:
        """A command as it is to be pasted: on one printable line, and, where its verb takes one, with the
        --db of this call, if that came as a flag. Once for each command."""
        given = takes and "db" in getattr(self.args, "given", ())
        if not given and command.isprintable():
            return command
        from .terminal import pasteable, quoted

        if given and command.startswith("spoolctl ") and not command.startswith("spoolctl -"):
            verb, blank, rest = command[len("spoolctl ") :].partition(" ")
            path: str = self.args.db  # type: ignore[union-attr]
            flag = f"--db={quoted(path)}" if path.startswith("-") else f"--db {quoted(path)}"
            command = f"spoolctl {verb} {flag}{blank}{rest}"
        return pasteable(command)

    def note(self, message: str) -> None:
        """A line on stderr for people; none in JSON mode."""
        if not self.json:
            self.err.write(emit.note_text(message))

    def try_note(self, message: str) -> bool:
        """As `note`, without ever waiting; False when stderr did not take the line."""
        return self.json or self.err.try_write(emit.note_text(message))

    def width(self) -> int:
        try:
            return os.get_terminal_size(1).columns or 80
        except OSError:
            return 80

    def colour(self) -> bool:
        wanted = not self.environ.get(env.NO_COLOR) and self.environ.get(env.TERM) != env.TERM_PLAIN
        return wanted and self.out.isatty()

    def record_fault(self, error: Exception) -> str:
        """Keep an unexpected exception's traceback; returns where it is."""
        import traceback

        trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        if self.environ.get(env.DEBUG) == env.DEBUG_ON:
            self.err.write(emit.text(trace))
            return "the traceback is on stderr"
        if self._spool is not None:
            path = self._spool.db + ".fault"
            try:
                flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK
                fd = os.open(paths.raw(path), flags, 0o600)
                try:
                    os.write(fd, emit.text(trace))
                finally:
                    os.close(fd)
                return f"the traceback is in {path}; please report it"
            except OSError:
                pass
        return "run it again with SPOOLCTL_DEBUG=1 for the traceback, and please report it"

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None
