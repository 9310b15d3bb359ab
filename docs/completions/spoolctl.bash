# Completion of spoolctl in bash, made by: spoolctl completion bash
# A line of ~/.bashrc: eval "$(spoolctl completion bash)"

# What may stand behind verb $1: `flags`; `args` by their place, `many` if the last takes all words
# that follow; `used`, the flags that an argument takes away.
__spoolctl_verb() {
    flags='' args=() many='' used=''
    case $1 in
    '')
        flags='--json --help -h --db --version'
        args=('words add work wait status list show feedback output events retry cancel prune config-show config-validate doctor brief robot-docs capabilities schema completion')
        ;;
    add)
        flags='-c --from --after --at --priority --queue -q --key --key-scope --timeout --max-retries --max-crashes --backoff-base --backoff-factor --backoff-max --backoff-jitter --cwd --env --tag --note --max-output --keep-children --json --help -h --db'
        args=(argv)
        many=1
        used='-c --from'
        ;;
    work)
        flags='--once --drain --queue -q --slots --concurrency -j --max-jobs --idle-timeout --poll-interval --worker-id --grace --strict --allow-shared --json --help -h --db'
        ;;
    wait)
        flags='--queue -q --tag --all --timeout --poll-interval --any --fail-fast --tail-bytes --json --help -h --db'
        args=(jobs)
        many=1
        ;;
    status)
        flags='--limit --json --help -h --db'
        ;;
    list)
        flags='--state --tag --queue -q --priority-min --key --since --until --limit --before --fields --json --help -h --db'
        ;;
    show)
        flags='--queue -q --json --help -h --db'
        args=(jobs)
        ;;
    feedback)
        flags='--queue -q --tag --tail-bytes --stream --json --help -h --db'
        args=(jobs)
        many=1
        used=--tag
        ;;
    output)
        flags='--attempt --stream --raw --tail-bytes --json --help -h --db'
        args=(jobs)
        ;;
    events)
        flags='--since-id --since-cursor --limit --job --wait --wait-timeout --follow --max-events --idle-timeout --poll-interval --json --help -h --db'
        ;;
    retry)
        flags='--all-dead --queue -q --tag --now --force --unverified --json --help -h --db'
        args=(jobs)
        many=1
        used=--all-dead
        ;;
    cancel)
        flags='--queue -q --tag --state --running --yes -y --unverified --json --help -h --db'
        args=(jobs)
        many=1
        used='--tag --state'
        ;;
    prune)
        flags='--older-than --state --queue -q --tag --keep --yes -y --dry-run --compact --json --help -h --db'
        ;;
    config-show)
        flags='--json --help -h --db'
        ;;
    config-validate)
        flags='--json --help -h'
        args=(files)
        ;;
    doctor)
        flags='--deep --json --help -h --db'
        ;;
    brief)
        flags='--json --help -h'
        ;;
    robot-docs)
        flags='--json --help -h'
        args=('words guide')
        ;;
    capabilities)
        flags='--verb --section --json --help -h'
        ;;
    schema)
        flags='--verb --json --help -h'
        ;;
    completion)
        flags='--words --queue -q --json --help -h --db'
        args=('words bash zsh fish')
        used=--words
        ;;
    esac
}

# Flag $2 of verb $1: `kind`, what completes its value; `gone`, what is not offered beside it.
__spoolctl_flag() {
    kind='' gone=''
    case "$1 $2" in
    ' --json') kind='' gone=--json ;;
    ' --help' | ' -h') kind='' gone='--help -h' ;;
    ' --db') kind=files gone=--db ;;
    ' --version') kind='' gone=--version ;;
    'add -c') kind=nothing gone='-c --from @' ;;
    'add --from') kind=files gone='--from -c @' ;;
    'add --after') kind=nothing gone='--after --at' ;;
    'add --at') kind=nothing gone='--at --after' ;;
    'add --priority') kind=nothing gone=--priority ;;
    'add --queue' | 'add -q') kind=lanes gone='--queue -q' ;;
    'add --key') kind=keys gone=--key ;;
    'add --key-scope') kind='words active kept' gone=--key-scope ;;
    'add --timeout') kind='words none' gone=--timeout ;;
    'add --max-retries') kind=nothing gone=--max-retries ;;
    'add --max-crashes') kind='words none' gone=--max-crashes ;;
    'add --backoff-base') kind=nothing gone=--backoff-base ;;
    'add --backoff-factor') kind=nothing gone=--backoff-factor ;;
    'add --backoff-max') kind=nothing gone=--backoff-max ;;
    'add --backoff-jitter') kind=nothing gone=--backoff-jitter ;;
    'add --cwd') kind=directories gone=--cwd ;;
    'add --env') kind=nothing gone='' ;;
    'add --tag') kind=tags gone='' ;;
    'add --note') kind=nothing gone=--note ;;
    'add --max-output') kind='words none' gone=--max-output ;;
    'add --keep-children') kind='' gone=--keep-children ;;
    'add --json') kind='' gone=--json ;;
    'add --help' | 'add -h') kind='' gone='--help -h' ;;
    'add --db') kind=files gone=--db ;;
    'work --once') kind='' gone='--once --drain --concurrency -j --max-jobs --idle-timeout' ;;
    'work --drain') kind='' gone='--drain --once' ;;
    'work --queue' | 'work -q') kind=lanes gone='--queue -q' ;;
    'work --slots') kind=nothing gone=--slots ;;
    'work --concurrency' | 'work -j') kind=nothing gone='--concurrency -j --once' ;;
    'work --max-jobs') kind=nothing gone='--max-jobs --once' ;;
    'work --idle-timeout') kind=nothing gone='--idle-timeout --once' ;;
    'work --poll-interval') kind=nothing gone=--poll-interval ;;
    'work --worker-id') kind=nothing gone=--worker-id ;;
    'work --grace') kind=nothing gone=--grace ;;
    'work --strict') kind='' gone=--strict ;;
    'work --allow-shared') kind='' gone=--allow-shared ;;
    'work --json') kind='' gone=--json ;;
    'work --help' | 'work -h') kind='' gone='--help -h' ;;
    'work --db') kind=files gone=--db ;;
    'wait --queue' | 'wait -q') kind=lanes gone='--queue -q' ;;
    'wait --tag') kind=tags gone='' ;;
    'wait --all') kind='' gone=--all ;;
    'wait --timeout') kind=nothing gone=--timeout ;;
    'wait --poll-interval') kind=nothing gone=--poll-interval ;;
    'wait --any') kind='' gone=--any ;;
    'wait --fail-fast') kind='' gone=--fail-fast ;;
    'wait --tail-bytes') kind=nothing gone=--tail-bytes ;;
    'wait --json') kind='' gone=--json ;;
    'wait --help' | 'wait -h') kind='' gone='--help -h' ;;
    'wait --db') kind=files gone=--db ;;
    'status --limit') kind=nothing gone=--limit ;;
    'status --json') kind='' gone=--json ;;
    'status --help' | 'status -h') kind='' gone='--help -h' ;;
    'status --db') kind=files gone=--db ;;
    'list --state') kind='list queued running done failed dead canceled' gone=--state ;;
    'list --tag') kind=tags gone='' ;;
    'list --queue' | 'list -q') kind=lanes gone='--queue -q' ;;
    'list --priority-min') kind=nothing gone=--priority-min ;;
    'list --key') kind=keys gone=--key ;;
    'list --since') kind=nothing gone=--since ;;
    'list --until') kind=nothing gone=--until ;;
    'list --limit') kind=nothing gone=--limit ;;
    'list --before') kind=nothing gone=--before ;;
    'list --fields') kind='list id argv payload state attempts crashes max_retries max_crashes timeout_seconds created_at started_at finished_at next_run_at priority queue cwd last_exit_code last_signal last_error last_failure_reason idempotency_key tags note' gone=--fields ;;
    'list --json') kind='' gone=--json ;;
    'list --help' | 'list -h') kind='' gone='--help -h' ;;
    'list --db') kind=files gone=--db ;;
    'show --queue' | 'show -q') kind=lanes gone='--queue -q' ;;
    'show --json') kind='' gone=--json ;;
    'show --help' | 'show -h') kind='' gone='--help -h' ;;
    'show --db') kind=files gone=--db ;;
    'feedback --queue' | 'feedback -q') kind=lanes gone='--queue -q' ;;
    'feedback --tag') kind=tags gone=@ ;;
    'feedback --tail-bytes') kind=nothing gone=--tail-bytes ;;
    'feedback --stream') kind='words both stdout stderr' gone=--stream ;;
    'feedback --json') kind='' gone=--json ;;
    'feedback --help' | 'feedback -h') kind='' gone='--help -h' ;;
    'feedback --db') kind=files gone=--db ;;
    'output --attempt') kind=nothing gone=--attempt ;;
    'output --stream') kind='words both stdout stderr' gone=--stream ;;
    'output --raw') kind='' gone='--raw --json' ;;
    'output --tail-bytes') kind=nothing gone=--tail-bytes ;;
    'output --json') kind='' gone='--json --raw' ;;
    'output --help' | 'output -h') kind='' gone='--help -h' ;;
    'output --db') kind=files gone=--db ;;
    'events --since-id') kind=nothing gone='--since-id --since-cursor' ;;
    'events --since-cursor') kind=nothing gone='--since-cursor --since-id' ;;
    'events --limit') kind=nothing gone='--limit --follow' ;;
    'events --job') kind=jobs gone=--job ;;
    'events --wait') kind='' gone='--wait --follow --max-events --idle-timeout' ;;
    'events --wait-timeout') kind=nothing gone=--wait-timeout ;;
    'events --follow') kind='' gone='--follow --limit --wait' ;;
    'events --max-events') kind=nothing gone='--max-events --wait' ;;
    'events --idle-timeout') kind=nothing gone='--idle-timeout --wait' ;;
    'events --poll-interval') kind=nothing gone=--poll-interval ;;
    'events --json') kind='' gone=--json ;;
    'events --help' | 'events -h') kind='' gone='--help -h' ;;
    'events --db') kind=files gone=--db ;;
    'retry --all-dead') kind='' gone='--all-dead --now --force @' ;;
    'retry --queue' | 'retry -q') kind=lanes gone='--queue -q' ;;
    'retry --tag') kind=tags gone='' ;;
    'retry --now') kind='' gone='--now --all-dead' ;;
    'retry --force') kind='' gone='--force --all-dead' ;;
    'retry --unverified') kind='' gone=--unverified ;;
    'retry --json') kind='' gone=--json ;;
    'retry --help' | 'retry -h') kind='' gone='--help -h' ;;
    'retry --db') kind=files gone=--db ;;
    'cancel --queue' | 'cancel -q') kind=lanes gone='--queue -q' ;;
    'cancel --tag') kind=tags gone=@ ;;
    'cancel --state') kind='words queued running' gone='--state @' ;;
    'cancel --running') kind='' gone=--running ;;
    'cancel --yes' | 'cancel -y') kind='' gone='--yes -y' ;;
    'cancel --unverified') kind='' gone=--unverified ;;
    'cancel --json') kind='' gone=--json ;;
    'cancel --help' | 'cancel -h') kind='' gone='--help -h' ;;
    'cancel --db') kind=files gone=--db ;;
    'prune --older-than') kind=nothing gone=--older-than ;;
    'prune --state') kind='list done dead canceled' gone=--state ;;
    'prune --queue' | 'prune -q') kind=lanes gone='--queue -q' ;;
    'prune --tag') kind=tags gone='' ;;
    'prune --keep') kind=nothing gone=--keep ;;
    'prune --yes' | 'prune -y') kind='' gone='--yes -y --dry-run' ;;
    'prune --dry-run') kind='' gone='--dry-run --yes -y' ;;
    'prune --compact') kind='' gone=--compact ;;
    'prune --json') kind='' gone=--json ;;
    'prune --help' | 'prune -h') kind='' gone='--help -h' ;;
    'prune --db') kind=files gone=--db ;;
    'config-show --json') kind='' gone=--json ;;
    'config-show --help' | 'config-show -h') kind='' gone='--help -h' ;;
    'config-show --db') kind=files gone=--db ;;
    'config-validate --json') kind='' gone=--json ;;
    'config-validate --help' | 'config-validate -h') kind='' gone='--help -h' ;;
    'doctor --deep') kind='' gone=--deep ;;
    'doctor --json') kind='' gone=--json ;;
    'doctor --help' | 'doctor -h') kind='' gone='--help -h' ;;
    'doctor --db') kind=files gone=--db ;;
    'brief --json') kind='' gone=--json ;;
    'brief --help' | 'brief -h') kind='' gone='--help -h' ;;
    'robot-docs --json') kind='' gone=--json ;;
    'robot-docs --help' | 'robot-docs -h') kind='' gone='--help -h' ;;
    'capabilities --verb') kind='words add work wait status list show feedback output events retry cancel prune config-show config-validate doctor brief robot-docs capabilities schema completion' gone='--verb --section' ;;
    'capabilities --section') kind='words tool_name tool_version contract_version contract_policy features output_modes schemas_uri robot_docs_uri global_flags exit_codes error_codes job_states job_transitions attempt_states events failure_reasons code_registry limits env env_vars config probe_vocabularies scheduling execution parsing totality verbs' gone='--section --verb' ;;
    'capabilities --json') kind='' gone=--json ;;
    'capabilities --help' | 'capabilities -h') kind='' gone='--help -h' ;;
    'schema --verb') kind='words add work wait status list show feedback output events retry cancel prune config-show config-validate doctor brief robot-docs capabilities schema completion' gone=--verb ;;
    'schema --json') kind='' gone=--json ;;
    'schema --help' | 'schema -h') kind='' gone='--help -h' ;;
    'completion --words') kind='words jobs lanes keys tags' gone='--words @' ;;
    'completion --queue' | 'completion -q') kind=lanes gone='--queue -q' ;;
    'completion --json') kind='' gone=--json ;;
    'completion --help' | 'completion -h') kind='' gone='--help -h' ;;
    'completion --db') kind=files gone=--db ;;
    esac
}

# Take the value $2 of flag $1 over to the call for words, if it says which queue is meant.
__spoolctl_hand() {
    case $1 in
    --queue | -q) place=(${place[@]+"${place[@]}"} --queue "$2") ;;
    --db) place=(${place[@]+"${place[@]}"} --db "${2/#~\//$HOME/}") ;;
    esac
}

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
    said=$(command spoolctl completion --words "$1" ${place[@]+"${place[@]}"} 2>/dev/null </dev/null)
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
