"""Completion scripts for shells, made from the specs alone: another verb or flag needs no change here."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...contract.spec import Verb


FILES = {"bash": "spoolctl.bash", "zsh": "_spoolctl", "fish": "spoolctl.fish"}  # as the shells look for them


def script(shell: str, specs: "dict[str, Verb]") -> str:
    """The text that teaches `shell` to complete spoolctl; it starts no process when it is read."""
    from . import words

    lines, handed = words.lines(specs), words.handed(specs)
    if shell == "bash":
        from . import bash as renderer
    elif shell == "zsh":
        from . import zsh as renderer  # type: ignore[no-redef]
    else:
        from . import fish as renderer  # type: ignore[no-redef]
    return renderer.script(lines, handed)


def files(specs: "dict[str, Verb]") -> "dict[str, str]":
    """{file name: script} of every shell."""
    return {name: script(shell, specs) for shell, name in FILES.items()}
