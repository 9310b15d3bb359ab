"""Named points at which a crash test acts or ends the process. The table is empty in production."""

AT: "dict[str, object]" = {}


def at(name: str) -> None:
    """Call what a test has put at this point."""
    if AT and name in AT:
        AT[name]()  # type: ignore[operator]
