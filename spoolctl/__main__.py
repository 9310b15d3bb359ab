"""Run main, flush, leave: the only place that touches the process environment."""

import os
import sys


def main() -> None:
    """The process entry, for the launcher and `python -m` alike. Does not return."""
    from . import cli, emit

    # Inside, text is UTF-8 with surrogates for other bytes, whatever the locale says.
    environ = {
        key.decode("utf-8", "surrogateescape"): value.decode("utf-8", "surrogateescape")
        for key, value in os.environb.items()
    }
    argv = sys.argv[1:]
    if sys.getfilesystemencoding() != "utf-8" or sys.getfilesystemencodeerrors() != "surrogateescape":
        argv = [os.fsencode(word).decode("utf-8", "surrogateescape") for word in argv]
    for fd in (0, 1, 2):
        # The next file opened would get the number of a closed one, and the answer would land in it.
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    out, err = emit.FdSink(1), emit.FdSink(2)
    context = cli.Context(environ, out, err, stdin=0)
    status = 3
    try:
        status = cli.run(argv, context)
    finally:
        context.close()
    # Nothing is left to be torn down: skipping interpreter shutdown saves a fifth of the call.
    os._exit(status)


if __name__ == "__main__":
    main()
