"""The functions of the bash script, which the tables of verbs and flags stand before.

Words of the queue are only ever compared, cut and quoted: none is expanded, and none reaches eval. The
constructs are those of bash 3.2, in which there are no associative arrays, mapfile or compopt.
"""

PROGRAM = r"""
# The words of the line before the cursor, without their quotes, in `words`; where each begins in `at`; the
# word at the cursor in `word`, its open quote in `open`, and in `cut` how much of it readline keeps.
__spoolctl_split() {
    local line=${COMP_LINE:0:COMP_POINT} i char began='' broken=0 quoted=0
    for ((i = 0; i < ${#line}; i++)); do
        char=${line:i:1}
        case $open.$char in
        \'.\' | \".\") open='' ;;
        \'.*) word=$word$char ;;
        \".\\)
            char=${line:i+1:1}
            case $char in
            [\"\\\$\`]) word=$word$char i=$((i + 1)) ;;
            *) word=$word\\ ;;
            esac
            ;;
        \".*) word=$word$char ;;
        .[[:space:]])
            if [ -n "$began" ]; then
                words[${#words[@]}]=$word
                word='' began='' broken=0
            fi
            ;;
        *)
            [ -n "$began" ] || at[${#words[@]}]=$i
            began=1
            case $char in
            \' | \") open=$char quoted=${#word} ;;
            \\) i=$((i + 1)) word=$word${line:i:1} ;;
            *)
                word=$word$char
                case $COMP_WORDBREAKS in *"$char"*) broken=${#word} ;; esac
                ;;
            esac
            ;;
        esac
    done
    [ -n "$began" ] || at[${#words[@]}]=${#line}
    if [ -n "$open" ]; then cut=$quoted; else cut=$broken; fi
}

# Offer a word if it begins as the one at the cursor, as it is to be typed there.
__spoolctl_reply() {
    local full=$lead$1 typed='' i char
    case $full in "$word"*) ;; *) return ;; esac
    full=${full:cut}
    case $full in
    *[!A-Za-z0-9_./:=@%+,-]*)
        if [ -z "$by_readline" ]; then
            for ((i = 0; i < ${#full}; i++)); do
                char=${full:i:1}
                case $open.$char in
                \'.\') char="'\\''" ;;
                \".!) char='"\!"' ;;
                \".[\"\\\$\`]) char=\\$char ;;
                \'.* | \".*) ;;
                .\~) [ -n "$is_file" ] || char=\\$char ;;
                *) case $' \t\\\'"$`;&|<>(){}[]*?!#^' in *"$char"*) char=\\$char ;; esac ;;
                esac
                typed=$typed$char
            done
            full=$typed
            # Readline closes the quote, unless what it put there ends in one.
            case $open.$full in \'.*\' | \".*\") full=$full$open ;; esac
        fi
        ;;
    esac
    COMPREPLY[${#COMPREPLY[@]}]=$full
}

# Offer files (-f) or directories (-d) that begin as `value`.
__spoolctl_files() {
    local found by_readline='' is_file=1
    compopt -o filenames 2>/dev/null && by_readline=1
    while IFS= read -r found; do
        [ -n "$found" ] && __spoolctl_reply "$found"
    done 2>/dev/null <<<"$(compgen "$1" -- "$value")"
}

# Offer words of the queue: of kind $1, each behind $2.
__spoolctl_ask() {
    local found rest said
    said=$(command spoolctl SELF --words "$1" ${place[@]+"${place[@]}"} 2>/dev/null </dev/null)
    while IFS=$'\t' read -r found rest; do
        [ -n "$found" ] && __spoolctl_reply "$2$found"
    done 2>/dev/null <<<"$said"
}

# Offer what completes `value`: $1 is a kind, the rest its choices.
__spoolctl_value() {
    local kind=$1 choice before=''
    shift
    case $kind in
    nothing) ;;
    words) for choice; do __spoolctl_reply "$choice"; done ;;
    list)
        case $value in *,*) before=${value%,*}, ;; esac
        for choice; do
            case ,$before in *",$choice,"*) ;; *) __spoolctl_reply "$before$choice" ;; esac
        done
        ;;
    files) __spoolctl_files -f ;;
    directories) __spoolctl_files -d ;;
    jobs)
        case $value in
        k | ke | key | key:*) __spoolctl_ask keys key: ;;
        *) __spoolctl_ask jobs ;;
        esac
        ;;
    *) __spoolctl_ask "$kind" ;;
    esac
}

# Offer the flags that may still be given.
__spoolctl_flags() {
    local flag
    for flag in $flags; do
        case "$off " in *" $flag "*) ;; *) __spoolctl_reply "$flag" ;; esac
    done
    __spoolctl_argument
    [ "$kind" != argv ] || __spoolctl_reply --
}

# What completes the argument that comes next, in `kind`.
__spoolctl_argument() {
    kind=''
    case "$off " in *' @ '*) return ;; esac
    if [ "$n" -lt ${#args[@]} ]; then
        kind=${args[n]}
    elif [ -n "$many" ]; then
        kind=${args[${#args[@]} - 1]}
    fi
}

# Take in the words before the cursor.
__spoolctl_walk() {
    local i said
    for ((i = 1; i < ${#words[@]}; i++)); do
        said=${words[i]}
        if [ -n "$want" ]; then
            want=''
            __spoolctl_hand "$name" "$said"
            continue
        elif [ -z "$dashes" ]; then
            case $said in
            --)
                dashes=1
                __spoolctl_argument
                [ "$kind" != argv ] || { first=$((i + 1)) && return; }
                continue
                ;;
            -[!0-9.]*)
                name=${said%%=*}
                __spoolctl_flag "$verb" "$name"
                off="$off $gone"
                case $said in
                *=*) __spoolctl_hand "$name" "${said#*=}" ;;
                *) want=$kind ;;
                esac
                continue
                ;;
            esac
        fi
        if [ -z "$verb" ]; then
            verb=$said
            __spoolctl_verb "$verb"
        else
            __spoolctl_argument
            [ "$kind" != argv ] || { first=$i && return; }
            n=$((n + 1)) off="$off $used"
        fi
    done
}

# Offer what completes a command of its own, which begins with word number `first`.
__spoolctl_command() {
    local i pos=0 rest gap
    if declare -F _command_offset >/dev/null; then
        # Its count is that of bash, which also breaks words at COMP_WORDBREAKS.
        for ((i = 0; i < ${#COMP_WORDS[@]}; i++)); do
            rest=${COMP_LINE:pos}
            gap=${rest%%[![:space:]]*}
            pos=$((pos + ${#gap}))
            [ $pos -lt "${at[first]}" ] || break
            pos=$((pos + ${#COMP_WORDS[i]}))
        done
        _command_offset $i
    elif [ "$first" -eq ${#words[@]} ]; then
        case $word in
        */*) __spoolctl_files -f ;;
        *)
            while IFS= read -r rest; do
                [ -n "$rest" ] && __spoolctl_reply "$rest"
            done 2>/dev/null <<<"$(compgen -c -- "$word")"
            ;;
        esac
    else
        __spoolctl_files -f
    fi
}

_spoolctl() {
    local IFS=$' \t\n'
    local word='' open='' cut=0 lead='' by_readline='' is_file='' value='' flags='' kind='' gone=''
    local used='' many='' verb='' want='' name='' dashes='' off='' n=0 first=''
    local -a words at args place
    words=() at=() args=() place=() COMPREPLY=()
    __spoolctl_split
    __spoolctl_verb ''
    __spoolctl_walk
    value=$word
    if [ -n "$first" ]; then
        __spoolctl_command
        return 0
    elif [ -n "$want" ]; then
        __spoolctl_value $want
        return 0
    elif [ -z "$dashes" ]; then
        case $word in
        -*=*)
            lead=${word%%=*}= value=${word#*=}
            __spoolctl_flag "$verb" "${lead%=}"
            [ -z "$kind" ] || __spoolctl_value $kind
            return 0
            ;;
        -*)
            __spoolctl_flags
            return 0
            ;;
        esac
    fi
    __spoolctl_argument
    if [ "$kind" != argv ]; then
        [ -z "$kind" ] || __spoolctl_value $kind
    elif [ -n "$word$dashes" ]; then
        first=${#words[@]}
        __spoolctl_command
    fi
    [ -n "$word$dashes" ] || [ ${#COMPREPLY[@]} -gt 0 ] || __spoolctl_flags
    return 0
}

complete -F _spoolctl spoolctl
"""
