# Completion of spoolctl in fish, made by: spoolctl completion fish
# A file ~/.config/fish/completions/spoolctl.fish, or a line of config.fish:
#   spoolctl completion fish | source

function __spoolctl_verbs
    printf '%s\n' 'add	put a command, or many, into the queue
work	run jobs of a lane
wait	wait until jobs are done, dead or canceled
status	show how the queue stands
list	list jobs, newest first
show	show one job with its attempts and its history
feedback	the verdict on a job: state, reason, end of its output, next step
output	show what a job wrote
events	read the ledger of what happened to jobs
retry	queue dead or canceled jobs again
cancel	cancel jobs
prune	delete finished jobs, their history and their output
config-show	show the settings in force and where each comes from
config-validate	check a config file, unknown keys included
doctor	say whether the queue can be used from here, and how to mend what is not right
brief	the tool on one page, for agents
robot-docs	the guide for agents: what to call, and when
capabilities	tell the whole contract as data
schema	show the JSON Schema of the answers
completion	print the script that completes spoolctl in a shell'
end

# The flags of a verb, a line each: spellings, what completes its value, what goes, what it means.
function __spoolctl_flags
    switch "$argv[1]"
        case ''
            printf '%s\n' '--json		--json	answer with one JSON document
--help -h		--help -h	show this help
--db	files	--db	the database file, or a directory that holds queue.db
--version		--version	print the version'
        case 'add'
            printf '%s\n' '-c	nothing	-c --from @	a shell command line instead: sh -c STRING
--from	files	--from -c @	add one job a line of this file; - is standard input
--after	nothing	--after --at	run no sooner than this from now
--at	nothing	--at --after	run no sooner than this moment; the past means now
--priority	nothing	--priority	higher runs first
--queue -q	lanes	--queue -q	the lane
--key	keys	--key	at most one active job per lane and key
--key-scope	words active kept	--key-scope	kept: the key matches a finished job too
--timeout	words none	--timeout	end an attempt that runs longer
--max-retries	nothing	--max-retries	retries after failures
--max-crashes	words none	--max-crashes	requeues after crashes of the worker
--backoff-base	nothing	--backoff-base	delay before the first retry
--backoff-factor	nothing	--backoff-factor	growth from retry to retry
--backoff-max	nothing	--backoff-max	the longest delay
--backoff-jitter	nothing	--backoff-jitter	share of a delay that is drawn at random
--cwd	directories	--cwd	directory to run in; default the present one
--env	nothing		set a variable, or copy yours
--tag	tags		label the job
--note	nothing	--note	free text
--max-output	words none	--max-output	end an attempt that prints more than this
--keep-children		--keep-children	leave what the command left behind when it ends
--json		--json	answer with one JSON document
--help -h		--help -h	show this help
--db	files	--db	the database file, or a directory that holds queue.db'
        case 'work'
            printf '%s\n' '--once		--once --drain --concurrency -j --max-jobs --idle-timeout	run at most one job, then leave
--drain		--drain --once	leave when the lane has settled
--queue -q	lanes	--queue -q	the lane
--slots	nothing	--slots	most running jobs of the lane, all workers together
--concurrency -j	nothing	--concurrency -j --once	jobs at once in this worker
--max-jobs	nothing	--max-jobs --once	leave after this many attempts
--idle-timeout	nothing	--idle-timeout --once	leave after this long with nothing to run
--poll-interval	nothing	--poll-interval	upper bound of a sleep between two looks
--worker-id	nothing	--worker-id	its name in status and events; default HOST-PID
--grace	nothing	--grace	from TERM to KILL
--strict		--strict	exit 6 when a job it ran ended dead
--allow-shared		--allow-shared	work although others may write the queue
--json		--json	answer with one JSON document
--help -h		--help -h	show this help
--db	files	--db	the database file, or a directory that holds queue.db'
        case 'wait'
            printf '%s\n' '--queue -q	lanes	--queue -q	only jobs of this lane
--tag	tags		only jobs with this tag; all must match
--all		--all	every job that is queued or running
--timeout	nothing	--timeout	give up after that time (exit 4)
--poll-interval	nothing	--poll-interval	upper bound of a sleep between two looks
--any		--any	wait for the first that settles
--fail-fast		--fail-fast	wait no longer than for the first that is dead or canceled
--tail-bytes	nothing	--tail-bytes	show why jobs failed, with so much of the end of their output
--json		--json	answer with one JSON document
--help -h		--help -h	show this help
--db	files	--db	the database file, or a directory that holds queue.db'
        case 'status'
            printf '%s\n' '--limit	nothing	--limit	at most so many workers, running and dead jobs; 0 is the most allowed, 1000
--json		--json	answer with one JSON document
--help -h		--help -h	show this help
--db	files	--db	the database file, or a directory that holds queue.db'
        case 'list'
            printf '%s\n' '--state	list queued running done failed dead canceled	--state	only jobs in this state, or in one of a comma list
--tag	tags		only jobs with this tag; all must match
--queue -q	lanes	--queue -q	only jobs of this lane
--priority-min	nothing	--priority-min	only jobs of this priority or a higher one
--key	keys	--key	only jobs with this key
--since	nothing	--since	only jobs added at that time or later
--until	nothing	--until	only jobs added at that time or earlier
--limit	nothing	--limit	at most so many jobs; 0 is the most allowed, 1000
--before	nothing	--before	only jobs with a lower id: the cursor of the page before
--fields	list id argv payload state attempts crashes max_retries max_crashes timeout_seconds created_at started_at finished_at next_run_at priority queue cwd last_exit_code last_signal last_error last_failure_reason idempotency_key tags note	--fields	only these keys of each job
--json		--json	answer with one JSON document
--help -h		--help -h	show this help
--db	files	--db	the database file, or a directory that holds queue.db'
        case 'show'
            printf '%s\n' '--queue -q	lanes	--queue -q	the lane in which a key:KEY is looked for
--json		--json	answer with one JSON document
--help -h		--help -h	show this help
--db	files	--db	the database file, or a directory that holds queue.db'
        case 'feedback'
            printf '%s\n' '--queue -q	lanes	--queue -q	only jobs of this lane
--tag	tags	@	only jobs with this tag; all must match
--tail-bytes	nothing	--tail-bytes	so many bytes of the end of each stream
--stream	words both stdout stderr	--stream	which stream
--json		--json	answer with one JSON document
--help -h		--help -h	show this help
--db	files	--db	the database file, or a directory that holds queue.db'
        case 'output'
            printf '%s\n' '--attempt	nothing	--attempt	of this attempt; without it of the latest
--stream	words both stdout stderr	--stream	which stream
--raw		--raw --json	the exact bytes of one stream; needs --stream stdout or stderr
--tail-bytes	nothing	--tail-bytes	only the last so many bytes
--json		--json --raw	answer with one JSON document
--help -h		--help -h	show this help
--db	files	--db	the database file, or a directory that holds queue.db'
        case 'events'
            printf '%s\n' '--since-id	nothing	--since-id --since-cursor	only events after this id
--since-cursor	nothing	--since-cursor --since-id	the same, under the name of what the last answer gave
--limit	nothing	--limit --follow	at most so many events; 0 is the most allowed, 10000
--job	jobs	--job	only events of this job
--wait		--wait --follow --max-events --idle-timeout	when there is nothing yet, wait for it
--wait-timeout	nothing	--wait-timeout	how long --wait waits
--follow		--follow --limit --wait	go on with what comes, until a signal
--max-events	nothing	--max-events --wait	end after so many events
--idle-timeout	nothing	--idle-timeout --wait	end when nothing came so long; 0: at once
--poll-interval	nothing	--poll-interval	upper bound of a sleep between two looks
--json		--json	answer with one JSON document
--help -h		--help -h	show this help
--db	files	--db	the database file, or a directory that holds queue.db'
        case 'retry'
            printf '%s\n' '--all-dead		--all-dead --now --force @	every dead job, of --queue and --tag where given
--queue -q	lanes	--queue -q	only jobs of this lane
--tag	tags		only jobs with this tag; all must match
--now		--now --all-dead	make a delayed or backing-off job due at once
--force		--force --all-dead	end a running attempt first
--unverified		--unverified	act although the owner cannot be judged
--json		--json	answer with one JSON document
--help -h		--help -h	show this help
--db	files	--db	the database file, or a directory that holds queue.db'
        case 'cancel'
            printf '%s\n' '--queue -q	lanes	--queue -q	only jobs of this lane
--tag	tags	@	only jobs with this tag; all must match
--state	words queued running	--state @	only jobs in this state
--running		--running	running jobs too; needs --yes
--yes -y		--yes -y	confirm
--unverified		--unverified	act although the owner cannot be judged
--json		--json	answer with one JSON document
--help -h		--help -h	show this help
--db	files	--db	the database file, or a directory that holds queue.db'
        case 'prune'
            printf '%s\n' '--older-than	nothing	--older-than	only jobs that ended longer ago
--state	list done dead canceled	--state	only jobs in these states
--queue -q	lanes	--queue -q	only jobs of this lane
--tag	tags		only jobs with this tag; all must match
--keep	nothing	--keep	spare the newest so many
--yes -y		--yes -y --dry-run	confirm
--dry-run		--dry-run --yes -y	say what would go, and change nothing
--compact		--compact	give the space in the database back to the file system
--json		--json	answer with one JSON document
--help -h		--help -h	show this help
--db	files	--db	the database file, or a directory that holds queue.db'
        case 'config-show'
            printf '%s\n' '--json		--json	answer with one JSON document
--help -h		--help -h	show this help
--db	files	--db	the database file, or a directory that holds queue.db'
        case 'config-validate'
            printf '%s\n' '--json		--json	answer with one JSON document
--help -h		--help -h	show this help'
        case 'doctor'
            printf '%s\n' '--deep		--deep	also read the whole database and measure the output; some seconds at most
--json		--json	answer with one JSON document
--help -h		--help -h	show this help
--db	files	--db	the database file, or a directory that holds queue.db'
        case 'brief'
            printf '%s\n' '--json		--json	answer with one JSON document
--help -h		--help -h	show this help'
        case 'robot-docs'
            printf '%s\n' '--json		--json	answer with one JSON document
--help -h		--help -h	show this help'
        case 'capabilities'
            printf '%s\n' '--verb	words add work wait status list show feedback output events retry cancel prune config-show config-validate doctor brief robot-docs capabilities schema completion	--verb --section	only this verb
--section	words tool_name tool_version contract_version contract_policy features output_modes schemas_uri robot_docs_uri global_flags exit_codes error_codes job_states job_transitions attempt_states events failure_reasons code_registry limits env env_vars config probe_vocabularies scheduling execution parsing totality verbs	--section --verb	only this part
--json		--json	answer with one JSON document
--help -h		--help -h	show this help'
        case 'schema'
            printf '%s\n' '--verb	words add work wait status list show feedback output events retry cancel prune config-show config-validate doctor brief robot-docs capabilities schema completion	--verb	only this verb
--json		--json	answer with one JSON document
--help -h		--help -h	show this help'
        case 'completion'
            printf '%s\n' '--words	words jobs lanes keys tags	--words @	the words of the queue that complete a value
--queue -q	lanes	--queue -q	only jobs of this lane
--json		--json	answer with one JSON document
--help -h		--help -h	show this help
--db	files	--db	the database file, or a directory that holds queue.db'
    end
end

# What completes the arguments of a verb; `many`: the last takes all that follow.
function __spoolctl_args
    switch "$argv[1]"
        case ''
            printf '%s\n' 'verbs'
        case 'add'
            printf '%s\n' 'argv
many'
        case 'wait'
            printf '%s\n' 'jobs
many'
        case 'show'
            printf '%s\n' 'jobs'
        case 'feedback'
            printf '%s\n' 'jobs
many'
        case 'output'
            printf '%s\n' 'jobs'
        case 'retry'
            printf '%s\n' 'jobs
many'
        case 'cancel'
            printf '%s\n' 'jobs
many'
        case 'config-validate'
            printf '%s\n' 'files'
        case 'robot-docs'
            printf '%s\n' 'words guide'
        case 'completion'
            printf '%s\n' 'words bash zsh fish'
    end
end

# The flags that an argument takes away.
function __spoolctl_used
    switch "$argv[1]"
        case 'add'
            printf '%s\n' '-c
--from'
        case 'feedback'
            printf '%s\n' '--tag'
        case 'retry'
            printf '%s\n' '--all-dead'
        case 'cancel'
            printf '%s\n' '--tag
--state'
        case 'completion'
            printf '%s\n' '--words'
    end
end

# The flag that says to the call for words which queue is meant, if this is one.
function __spoolctl_handed
    switch "$argv[1]"
        case '--queue'
            printf '%s\n' '--queue'
        case '-q'
            printf '%s\n' '--queue'
        case '--db'
            printf '%s\n' '--db'
        case '*'
            return 1
    end
end

# Words of the queue: of kind $argv[1], each behind $argv[2]; what follows says which queue is meant.
function __spoolctl_ask
    for line in (command spoolctl completion --words $argv[1] $argv[3..-1] 2>/dev/null </dev/null)
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
