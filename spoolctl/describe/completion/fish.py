"""The script for fish: a file of its completions directory that may also be sourced.

One function answers for the whole line; what it prints is text to fish, which quotes it on the line.
"""

from .words import SELF, Line, Option, Value

# `@` among the spellings that are gone stands for the arguments.
ARGUMENTS = "@"

HEAD = """\
# Completion of spoolctl in fish, made by: spoolctl completion fish
# A file ~/.config/fish/completions/spoolctl.fish, or a line of config.fish:
#   spoolctl completion fish | source
"""

PROGRAM = r"""
# Words of the queue: of kind $argv[1], each behind $argv[2]; what follows says which queue is meant.
function __spoolctl_ask
    for line in (command spoolctl SELF --words $argv[1] $argv[3..-1] 2>/dev/null </dev/null)
        printf '%s%s\n' $argv[2] $line
    end
end

# What completes a value: $argv[1] its kind and choices, $argv[2] what stands before it in the word,
# $argv[3] the value so far; what follows says which queue is meant.
function __spoolctl_value
    set -l choices (string split ' ' -- $argv[1])
    set -l kind $choices[1]
    set -e choices[1]
    set -l place $argv[4..-1]
    switch $kind
        case '' nothing
        case words
            for choice in $choices
                printf '%s%s\n' $argv[2] $choice
            end
        case list
            set -l before (string replace -r '[^,]*$' '' -- $argv[3])
            for choice in $choices
                contains -- $choice (string split , -- $before)
                or printf '%s%s%s\n' $argv[2] $before $choice
            end
        case files
            for path in (__fish_complete_path $argv[3])
                printf '%s%s\n' $argv[2] $path
            end
        case directories
            for path in (__fish_complete_directories $argv[3])
                printf '%s%s\n' $argv[2] $path
            end
        case jobs
            if string match -qr '^(k|ke|key|key:.*)$' -- $argv[3]
                __spoolctl_ask keys $argv[2]key: $place
            else
                __spoolctl_ask jobs $argv[2] $place
            end
        case '*'
            __spoolctl_ask $kind $argv[2] $place
    end
end

# The line of the table for flag $argv[2] of verb $argv[1].
function __spoolctl_flag
    for line in (__spoolctl_flags $argv[1])
        set -l facts (string split \t -- $line)
        if contains -- $argv[2] (string split ' ' -- $facts[1])
            printf '%s\n' $facts
            return
        end
    end
end

# What completes argument number $argv[2] of verb $argv[1].
function __spoolctl_argument
    set -l kinds (__spoolctl_args $argv[1])
    if set -q kinds[$argv[2]]; and test $kinds[$argv[2]] != many
        printf '%s\n' $kinds[$argv[2]]
    else if contains -- many $kinds
        printf '%s\n' $kinds[-2]
    end
end

# A word without its quotes, of which the last may be open.
function __spoolctl_plain
    string unescape -- "$argv"
    or string unescape -- "$argv'"
    or string unescape -- "$argv\""
    or printf '%s\n' "$argv"
end

function __spoolctl_complete
    set -l words (commandline -opc)
    set -l word (__spoolctl_plain (commandline -ct))
    set -l verb ''
    set -l name ''
    set -l kind ''
    set -l n 1
    set -l dashes
    set -l off
    set -l place
    set -e words[1]
    while set -q words[1]
        set -l said $words[1]
        set -e words[1]
        set -l value
        set -l next (__spoolctl_argument "$verb" $n)
        if test -n "$kind"
            set kind ''
            set value $said
        else if not set -q dashes[1]; and test "$said" = --
            set dashes 1
            if test "$next" = argv
                __spoolctl_command $words
                return
            end
            continue
        else if not set -q dashes[1]; and string match -qr '^-[^0-9.]' -- $said
            set name (string replace -r '=.*' '' -- $said)
            set -l facts (__spoolctl_flag "$verb" $name)
            set -a off (string split ' ' -- $facts[3])
            if string match -q '*=*' -- $said
                set value (string replace -r '^[^=]*=' '' -- $said)
            else
                set kind $facts[2]
                continue
            end
        else if test -z "$verb"
            set verb $said
            continue
        else if test "$next" = argv
            __spoolctl_command $said $words
            return
        else
            set n (math $n + 1)
            set -a off (__spoolctl_used $verb)
            continue
        end
        set -l handed (__spoolctl_handed $name)
        and set -a place $handed (string replace -r '^~/' $HOME/ -- $value)
    end

    if test -n "$kind"
        __spoolctl_value $kind '' $word $place
        return
    end
    if not set -q dashes[1]; and string match -qr '^-' -- $word
        if string match -q '*=*' -- $word
            set -l parts (string split -m 1 = -- $word)
            set -l facts (__spoolctl_flag "$verb" $parts[1])
            __spoolctl_value "$facts[2]" $parts[1]= "$parts[2]" $place
        else
            __spoolctl_offer "$verb" $off
        end
        return
    end
    set -l found
    if not contains -- @ $off
        set -l next (__spoolctl_argument "$verb" $n)
        if test "$next" = argv
            test -n "$word$dashes"; and __spoolctl_command; and return
        else if test "$next" = verbs
            set found (__spoolctl_verbs)
        else
            set found (__spoolctl_value "$next" '' $word $place)
        end
    end
    if set -q found[1]
        printf '%s\n' $found
    else if test -z "$word$dashes"
        __spoolctl_offer "$verb" $off
    end
end

# The flags of verb $argv[1] but those that follow.
function __spoolctl_offer
    for line in (__spoolctl_flags $argv[1])
        set -l facts (string split \t -- $line)
        for name in (string split ' ' -- $facts[1])
            contains -- $name $argv[2..-1]
            or printf '%s\t%s\n' $name $facts[4]
        end
    end
end

# What completes a command of its own, of which these words are there.
function __spoolctl_command
    complete -C (string join ' ' -- (string escape -- $argv) (commandline -ct))
end

complete -c spoolctl -k -f -a '(__spoolctl_complete)'
"""


def script(lines: "list[Line]", handed: "tuple[Option, ...]") -> str:
    verbs = "\n".join(f"{name}\t{summary}" for name, summary in lines[0].words)
    parts = [
        HEAD,
        f"function __spoolctl_verbs\n    printf '%s\\n' {_quoted(verbs)}\nend\n",
        "# The flags of a verb, a line each: spellings, what completes its value, what goes, what it means.",
        _table("flags", [(line.name, [_flag(option) for option in line.options]) for line in lines]),
        "# What completes the arguments of a verb; `many`: the last takes all that follow.",
        _table("args", [("", ["verbs"]), *((line.name, _args(line)) for line in lines[1:])]),
        "# The flags that an argument takes away.",
        _table("used", [(line.name, list(line.used)) for line in lines]),
        "# The flag that says to the call for words which queue is meant, if this is one.",
        _table("handed", [(name, [option.names[0]]) for option in handed for name in option.names]),
    ]
    return "\n".join(parts) + PROGRAM.replace("SELF", SELF)


def _table(name: str, rows: "list[tuple[str, list[str]]]") -> str:
    """A function that prints the lines of its first argument."""
    out = [f"function __spoolctl_{name}", '    switch "$argv[1]"']
    for key, lines in rows:
        if lines:
            text = "\n".join(lines)
            out += [f"        case {_quoted(key)}", f"            printf '%s\\n' {_quoted(text)}"]
    if name == "handed":
        out += ["        case '*'", "            return 1"]
    return "\n".join([*out, "    end", "end"]) + "\n"


def _flag(option: Option) -> str:
    gone = option.gone + ((ARGUMENTS,) if option.alone else ())
    return "\t".join((" ".join(option.names), _kind(option.value), " ".join(gone), option.help))


def _args(line: Line) -> "list[str]":
    return [_kind(value) for value in line.args] + (["many"] if line.many else [])


def _kind(value: "Value | None") -> str:
    return " ".join((value.kind, *value.words)) if value else ""


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
