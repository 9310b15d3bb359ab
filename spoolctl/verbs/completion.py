"""completion: the script that teaches a shell to complete spoolctl, and the words it asks for on the way.

Looking for words only reads, is bounded, and answers with none when there is no queue.
"""

from ..contract.shared import QUEUE
from ..contract.spec import Arg, Args, Flag, Result, Verb
from ..contract.types import Choice, JobRef, Key, Lane, Tag

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..context import Context
    from ..store.db import Row
    from ..terminal import View

KINDS = tuple(str(kind.words) for kind in (JobRef, Lane, Key, Tag))

SPEC = Verb(
    "completion",
    "print the script that completes spoolctl in a shell",
    "The script starts nothing when the shell reads it. At a TAB it calls completion --words, which prints "
    "newest first, one a line, what the queue holds: jobs as their id, a tab, state and command.",
    args=(Arg("SHELL", Choice("bash", "zsh", "fish"), "?", "the shell"),),
    flags=(
        Flag("--words", Choice(*KINDS), help="the words of the queue that complete a value"),
        QUEUE,
    ),
    exclusive=(("shell", "words"),),
    needs={"queue": ("words",)},
    one_of=("shell", "words"),
    any_place=True,  # the scripts need none
    examples=(
        ('eval "$(spoolctl completion bash)"', "bash: a line of ~/.bashrc"),
        ('eval "$(spoolctl completion zsh)"', "zsh: a line of ~/.zshrc, below compinit"),
        ("spoolctl completion zsh > ~/.zfunc/_spoolctl", "zsh, or so: in a directory of fpath"),
        ("spoolctl completion fish > ~/.config/fish/completions/spoolctl.fish", "fish: read when needed"),
        ("spoolctl completion --words jobs --queue builds", "the newest jobs of a lane"),
    ),
    errors=(
        "INVALID_INPUT", "MISSING_REQUIRED", "UNKNOWN_FLAG", "SAFETY_BLOCK", "DB_INVALID", "DB_READONLY",
        "LOCKED", "INTERNAL",
    ),
)  # fmt: skip


def data() -> "dict[str, object]":
    from ..contract import shapes as s

    shell = s.enum(*SPEC.args[0].type.choices or ())
    words = s.arr(s.obj(word=s.STR, description=s.nullable(s.STR)))
    return s.any_of(s.obj(shell=shell, text=s.STR), s.obj(words=words))


def run(args: Args, ctx: "Context") -> Result:
    if args.words is None:
        from ..describe import completion

        return Result({"shell": args.shell, "text": completion.script(args.shell, ctx.specs)})
    from ..store import words

    found = words.of(ctx.reader(), args.words, args.queue)
    # What is not printable could not be typed, and would spoil the line it is shown on.
    shown = [(word, text) for word, text in found if word.isprintable()]
    return Result({"words": [{"word": word, "description": _short(text)} for word, text in shown]})


def _short(text: "str | None") -> "str | None":
    from ..terminal import cut, escaped

    return None if text is None else cut(escaped(text), 60)


def text(data: "Row", view: "View") -> str:
    if "text" in data:
        return str(data["text"])
    words: "list[Row]" = data["words"]
    return "".join("\t".join(filter(None, (one["word"], one["description"]))) + "\n" for one in words)
