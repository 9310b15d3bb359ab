"""The script for zsh: a #compdef file that may also be sourced.

What may stand where is left to `_arguments`; words of the queue reach the line through compadd, which quotes.
"""

from ...terminal import quoted
from .words import SELF, Line, Option, Value

HEAD = """\
#compdef spoolctl
# Completion of spoolctl in zsh, made by: spoolctl completion zsh
# A file _spoolctl in a directory of fpath, or a line of ~/.zshrc below compinit:
#   eval "$(spoolctl completion zsh)"
"""

PROGRAM = r"""
# The words of the queue: of kind $1, each behind $2; they stand under title $3.
_spoolctl_ask() {
    local -a found typed shown expl
    local line
    found=("${(@f)$(command spoolctl SELF --words $1 "${(@)place}" 2>/dev/null </dev/null)}")
    for line in "${(@)found:#}"; do
        typed+=("$2${line%%$'\t'*}")
        shown+=("$2${line/$'\t'/  }")
    done
    if [[ $1 == jobs ]]; then
        _wanted -V $1 expl $3 compadd -l -d shown -a typed
    else
        _wanted -V $1 expl $3 compadd -a typed
    fi
}

_spoolctl_job() {
    if [[ $PREFIX == (k|ke|key|key:*) ]]; then
        _spoolctl_ask keys key: $1
    elif [[ $PREFIX != -* ]]; then  # `_arguments` tries arguments where flags are typed, too
        _spoolctl_ask jobs '' $1
    fi
}

# A command of its own. `_arguments` leaves the `--` before it in some places.
_spoolctl_command() {
    if [[ $words[1] == -- ]] && (( CURRENT > 1 )); then
        shift words
        (( CURRENT-- ))
    elif (( CURRENT == 1 )) && [[ $PREFIX == -* ]]; then
        return 1
    fi
    _normal
}

# Which queue the line means, in `place`.
_spoolctl_place() {
    local word name='' value
    for word in "${(@Q)words[2,CURRENT-1]}"; do
        value=$word
        if [[ -z $name ]]; then
            case $word in
            (--) return ;;
            (-*=*) name=${word%%=*} value=${word#*=} ;;
            (-*) name=$word; _spoolctl_hands $name || name=''; continue ;;
            (*) continue ;;
            esac
        fi
        _spoolctl_hands $name && place+=($name "${value/#\~\//$HOME/}")
        name=''
    done
}

_spoolctl() {
    local -a place before
    local i=2
    _spoolctl_place
    while (( i < CURRENT )) && [[ $words[i] == -* ]]; do
        before+=("$words[i]")
        if [[ $words[i] == --db ]]; then
            (( ++i < CURRENT )) || break
            before+=("$words[i]")
        fi
        (( i++ ))
    done
    if (( i >= CURRENT )); then
        _spoolctl_verb ''
        return
    fi
    # Flags may stand before the verb; they count as if they stood behind it.
    words=("$words[i]" "${(@)before}" "${(@)words[i+1,-1]}")
    (( CURRENT += 1 - i + $#before ))
    local curcontext="${curcontext%:*:*}:spoolctl-$words[1]:"
    _spoolctl_verb "${(Q)words[1]}"
}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _spoolctl "$@"
elif (( $+functions[compdef] )); then
    compdef _spoolctl spoolctl
fi
"""


def script(lines: "list[Line]", handed: "tuple[Option, ...]") -> str:
    names = "|".join(name for option in handed for name in option.names)
    hands = (
        f"# Whether a flag says which queue is meant.\n_spoolctl_hands() {{\n    [[ $1 == ({names}) ]]\n}}\n"
    )
    return "\n".join((HEAD, _first(lines[0]), _verbs(lines), hands)) + PROGRAM.replace("SELF", SELF)


def _first(line: Line) -> str:
    """The verbs with their summaries."""
    out = ["_spoolctl_verbs() {", "    local -a verbs", "    verbs=("]
    out += [f"        {quoted(_escaped(name, ':') + ':' + summary)}" for name, summary in line.words]
    return "\n".join([*out, "    )", "    _describe -t verbs verb verbs", "}"]) + "\n"


def _verbs(lines: "list[Line]") -> str:
    out = ["# What may stand behind a verb.", "_spoolctl_verb() {", "    case $1 in"]
    for line in lines:
        # Behind `--`, and in a command of the user's behind its first word, nothing is a flag of ours.
        behind = " -A '-*'" if line.takes_argv else ""
        out.append(f"    ({quoted(line.name)})\n        _arguments -S{behind} \\")
        out.append(" \\\n".join(f"            {spec}" for spec in _specs(line)))
        out.append("        ;;")
    return "\n".join([*out, "    esac", "}"]) + "\n"


def _specs(line: Line) -> "list[str]":
    out = []
    for option in line.options:
        out += [_flag(option, name) for name in option.names]
    if not line.name:
        return [*out, quoted("1:verb:_spoolctl_verbs")]
    away = f"({' '.join(line.used)})" if line.used else ""
    for place, value in enumerate(line.args, 1):
        if value.kind == "argv":
            out.append(quoted(f"{away}*::command: _spoolctl_command"))
            continue
        number = "*" if line.many and place == len(line.args) else str(place)
        out.append(quoted(f"{away}{number}{_action(value)}"))
    return out


def _flag(option: Option, name: str) -> str:
    gone = [*option.gone, *(("*", ":") if option.alone else ())]
    text = f"({' '.join(gone)})" if gone else ""
    text += "*" if option.repeat else ""
    text += name + ("=" if option.value else "") + f"[{_escaped(option.help, '[]:')}]"
    return quoted(text + (_action(option.value) if option.value else ""))


def _action(value: Value) -> str:
    """`:title:action` of `_arguments`."""
    title, words = _escaped(value.title, ":"), " ".join(value.words)
    actions = {
        "nothing": " ",
        "words": f"({words})",
        "list": f"_values -s , {quoted(title)} {words}",
        "files": "_files",
        "directories": "_files -/",
        "jobs": f" _spoolctl_job {quoted(title)}",
    }
    asked = f" _spoolctl_ask {value.kind} '' {quoted(title)}"
    return f":{title}:{actions.get(value.kind, asked)}"


def _escaped(text: str, odd: str) -> str:
    return "".join("\\" + char if char in odd + "\\" else char for char in text)
