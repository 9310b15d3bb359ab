"""The script for bash, 3.2 or newer, with or without bash-completion: tables, then a fixed program."""

from ...terminal import quoted
from .bash_program import PROGRAM
from .words import SELF, Line, Option, Value

# `@` among the spellings that are gone stands for the arguments.
ARGUMENTS = "@"

HEAD = """\
# Completion of spoolctl in bash, made by: spoolctl completion bash
# A line of ~/.bashrc: eval "$(spoolctl completion bash)"
"""


def script(lines: "list[Line]", handed: "tuple[Option, ...]") -> str:
    return "\n".join((HEAD, _verbs(lines), _flags(lines), _hand(handed))) + PROGRAM.replace("SELF", SELF)


def _kind(value: "Value | None") -> str:
    return " ".join((value.kind, *value.words)) if value else ""


def _verbs(lines: "list[Line]") -> str:
    """What stands behind a verb: sets flags, args, many and used."""
    out = [
        "# What may stand behind verb $1: `flags`; `args` by their place, `many` if the last takes all words",
        "# that follow; `used`, the flags that an argument takes away.",
        "__spoolctl_verb() {",
        "    flags='' args=() many='' used=''",
        "    case $1 in",
    ]
    for line in lines:
        flags = " ".join(name for option in line.options for name in option.names)
        words = [f"    {quoted(line.name)})", f"        flags={quoted(flags)}"]
        if line.args:
            words.append(f"        args=({' '.join(quoted(_kind(value)) for value in line.args)})")
        if line.many:
            words.append("        many=1")
        if line.used:
            words.append(f"        used={quoted(' '.join(line.used))}")
        out += [*words, "        ;;"]
    return "\n".join([*out, "    esac", "}"]) + "\n"


def _flags(lines: "list[Line]") -> str:
    """What a flag of a verb takes, and takes away: sets kind and gone."""
    out = ["# Flag $2 of verb $1: `kind`, what completes its value; `gone`, what is not offered beside it.",
           "__spoolctl_flag() {", "    kind='' gone=''", '    case "$1 $2" in']  # fmt: skip
    for line in lines:
        for option in line.options:
            names = " | ".join(quoted(f"{line.name} {name}") for name in option.names)
            gone = " ".join(option.gone + ((ARGUMENTS,) if option.alone else ()))
            out.append(f"    {names}) kind={quoted(_kind(option.value))} gone={quoted(gone)} ;;")
    return "\n".join([*out, "    esac", "}"]) + "\n"


def _hand(handed: "tuple[Option, ...]") -> str:
    """Which values of the line go on to the call for words."""
    out = ["# Take the value $2 of flag $1 over to the call for words, if it says which queue is meant.",
           "__spoolctl_hand() {", "    case $1 in"]  # fmt: skip
    for option in handed:
        value = '"$2"'
        if option.value and option.value.kind == "files":
            value = '"${2/#~\\//$HOME/}"'
        names = " | ".join(option.names)
        out.append(f'    {names}) place=(${{place[@]+"${{place[@]}}"}} {option.names[0]} {value}) ;;')
    return "\n".join([*out, "    esac", "}"]) + "\n"
