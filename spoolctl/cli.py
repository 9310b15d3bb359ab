"""Pick the verb, parse, run, emit; exceptions become an exit status. Knows no verb."""

from . import __version__, argv, clock, emit, registry
from .context import Context
from .contract import env
from .contract.spec import Args, Result
from .errors import SpoolctlError, invalid


def run(tokens: "list[str]", ctx: Context) -> int:
    """One call: answers on ctx.out and ctx.err and returns the exit status."""
    ctx.started = clock.monotonic()
    ctx.json = argv.wants_json(tokens)
    try:
        return _answer(tokens, ctx)
    except SpoolctlError as error:
        return _refuse(error, ctx)
    except emit.ReaderGone:
        return 0
    except KeyboardInterrupt:
        _die_by_interrupt(ctx)
        return 130
    except Exception as error:
        return _refuse(_fault(error, ctx), ctx)


def _answer(tokens: "list[str]", ctx: Context) -> int:
    name, rest = argv.split_verb(tokens)
    if name is None:
        return _without_verb(rest, ctx)
    verb = registry.load(name)
    args = argv.parse(verb.SPEC, rest)
    if args.help:
        return _say(_help_of(verb.SPEC), ctx)
    ctx.args = args
    result = verb.run(args, ctx)
    if not result.streamed:
        _emit(verb, result, ctx)
    return int(result.exit_code)


def _help_of(spec: object) -> str:
    from . import help

    return help.of_verb(spec)  # type: ignore[arg-type]


def _without_verb(tokens: "list[str]", ctx: Context) -> int:
    names: "list[str]" = []
    for token in tokens:
        name, equals, value = token.partition("=")
        if name == "--db":
            raise SpoolctlError(
                "UNKNOWN_FLAG", "--db belongs to a verb, and there is none", "spoolctl --help"
            )
        if equals:
            message = f"{name} takes no value: write {name} alone"
            raise invalid(message, "spoolctl --help", flag=name, value=value)
        if name in names:
            message = f"{name} is given twice: give it once"
            raise invalid(message, "spoolctl --help", flag=name, value=token)
        names.append(name)
    if "--help" in names or "-h" in names:
        from . import help

        return _say(help.overview(registry.specs()), ctx)  # type: ignore[arg-type]
    if "--version" in names:
        if ctx.json:
            _document(ctx, {"version": __version__})
        else:
            ctx.out.write(emit.text(f"spoolctl {__version__}\n"))
        return 0
    raise SpoolctlError("MISSING_REQUIRED", "no verb given", "spoolctl --help")


def _say(text: str, ctx: Context) -> int:
    if ctx.json:
        _document(ctx, {"text": text})
    else:
        ctx.out.write(emit.text(text))
    return 0


def _document(ctx: Context, data: object) -> None:
    ctx.out.write(emit.envelope(data, ctx.elapsed_ms()))


def _emit(verb: object, result: Result, ctx: Context) -> None:
    if ctx.json:
        ctx.out.write(
            emit.envelope(
                result.data,
                ctx.elapsed_ms(),
                result.pagination,
                result.wait,
                ctx.warnings + result.warnings,
                result.commands,
            )
        )
        return
    from .terminal import View

    text = verb.text(result.data, View(clock.now(), ctx.width(), ctx.colour()))  # type: ignore[attr-defined]
    ctx.out.write(emit.text(text))
    for code, message in ctx.warnings + result.warnings:
        ctx.err.write(emit.warning_text(code, message))


def _refuse(error: SpoolctlError, ctx: Context) -> int:
    named = "db" in getattr(ctx.args, "given", ())  # else there is no need to load that verb
    error.remediation = ctx.with_db(error.remediation, named and _takes_db(error.remediation))
    if ctx.json:
        _try(ctx.out, emit.envelope(None, ctx.elapsed_ms(), warnings=ctx.warnings, error=error))
    if not (ctx.json and ctx.environ.get(env.STDERR) == env.STDERR_OFF):
        _try(ctx.err, emit.error_text(error, hint=not ctx.json))
    return error.exit_code


def _takes_db(command: str) -> bool:
    """Whether the verb of a command of ours takes --db."""
    verb = command.partition(" ")[2].partition(" ")[0]
    return verb not in registry.VERBS or registry.load(verb).SPEC.db


def _try(sink: "emit.FdSink", data: bytes) -> None:
    """Write, if it can be written: the exit status tells the rest."""
    try:
        sink.write(data)
    except (emit.ReaderGone, SpoolctlError):
        pass


def _fault(error: Exception, ctx: Context) -> SpoolctlError:
    """What an unexpected exception is called; a database's own errors have their table."""
    if type(error).__module__ == "sqlite3":
        from .store.faults import translated

        return translated(error, ctx.db_path())
    if isinstance(error, OSError):
        from .store.faults import of_os

        known = of_os(error)
        if known is not None:
            return known
    note = ctx.record_fault(error)
    return SpoolctlError("INTERNAL", f"{type(error).__name__}: {error}; {note}", "spoolctl doctor")


def _die_by_interrupt(ctx: Context) -> None:
    """End by the signal itself, so that a caller's shell sees what happened (SPEC 2.1)."""
    import os
    import signal

    ctx.close()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)


__all__ = ["Args", "Context", "run"]
