"""The guide for an agent with no other source: what to call, in the order in which it is needed (SPEC 3).

Every line between backquotes is a command that exists; a test parses each of them.
"""

from .. import CONTRACT_VERSION
from ..contract import env, limits
from ..contract.addflags import FLAGS
from ..contract.spec import Verb
from ..contract.states import EVENTS, OF_LEASES, TERMINAL
from ..errors import ERRORS, EXITS
from .schemas import errors_of

_DEFAULT = {flag.dest: flag.default for flag in FLAGS}


def sections(specs: "dict[str, Verb]") -> "list[dict[str, object]]":
    """[{title, bullets}], in reading order."""
    parts = (
        ("Discover", _discover()),
        ("Check readiness", _readiness()),
        ("Submit many, then wait", _many()),
        ("The verdict in one call", _verdict()),
        ("Keys, tags and hand-over between agents that die", _hand_over()),
        ("Safety gates", _safety(specs)),
        ("Streaming", _streaming()),
        ("Recovery", _recovery(specs)),
    )
    return [{"title": title, "bullets": list(bullets)} for title, bullets in parts]


def text(found: "list[dict[str, object]]") -> str:
    lines: "list[str]" = []
    for section in found:
        bullets: "list[str]" = section["bullets"]  # type: ignore[assignment]
        lines += [f"## {section['title']}", "", *(f"- {bullet}" for bullet in bullets), ""]
    return "\n".join(lines).rstrip() + "\n"


def _discover() -> "tuple[str, ...]":
    retry = ", ".join(str(status) for status, (_, again) in EXITS.items() if again)
    return (
        "`spoolctl brief` is one page; `spoolctl --help` and `spoolctl add --help` are for reading.",
        "`spoolctl capabilities --json --verb add` tells all of one verb: flags, limits, defaults, "
        "errors, the shape of its answer. `spoolctl schema --json --verb add` is that shape as JSON "
        "Schema.",
        "Pass --json to every call. It prints exactly one document, contract version "
        f"{CONTRACT_VERSION}: ok, data, meta, warnings, commands, errors. errors holds at most one "
        "entry; its remediation is a command line you can run. Ignore keys you do not know.",
        f"Branch on the exit status: {_exits()}. Repeat a call unchanged only at {retry}.",
        "`spoolctl capabilities --json --section code_registry` explains every code.",
    )


def _exits() -> str:
    return "; ".join(f"{status} {meaning}" for status, (meaning, _) in EXITS.items())


def _readiness() -> "tuple[str, ...]":
    return (
        "`spoolctl doctor --json`: data.ready says whether jobs can be queued and run from here; exit "
        "3 when not. Each check that failed has a remediation to paste. It changes nothing.",
        f"The queue is found by --db, then {env.DB}, then the project's .spoolctl/config.json, then "
        ".spoolctl/queue.db in the nearest directory upward. `spoolctl config-show --json` says which "
        "it is and why. The first add makes it.",
        "`spoolctl status --json`: counts, workers and whether they live, what runs, what died last. A "
        "warning NO_WORKER means that due jobs wait in a lane nobody serves; its message is the line "
        "that starts a worker, which goes on until it is told to stop; commands has the one that returns.",
        "A worker is any process that runs `spoolctl work`. `spoolctl work --drain -j 4` runs what is "
        "there and leaves; `nohup spoolctl work > worker.log 2>&1 &` goes on when your shell has "
        "ended. Workers need no order, no name and no clean end.",
    )


def _many() -> "tuple[str, ...]":
    return (
        "`spoolctl add --json -- make test` queues one command: the words behind -- are run as they "
        "stand, without a shell, in this directory, with this PATH. `spoolctl add --json -c 'make 2>&1 "
        "| tail'` asks for a shell.",
        "`spoolctl add --json --from jobs.txt --tag run=42` queues a line a job (a shell line, or a "
        f"JSON object with the flags as keys), all or none, up to {limits.FROM_MAX} at once. Give a "
        "batch a tag of its own.",
        f"Defaults: a timeout of {_DEFAULT['timeout']} seconds, {_DEFAULT['max_retries']} retries with "
        "growing delays. `spoolctl add --json --timeout 2h --max-retries 0 --after 10m --priority 5 "
        "-q gpu -- ./train.sh` changes them.",
        "`spoolctl wait --json --tag run=42 --timeout 30m` returns when all of them have settled: exit "
        "0 all done, 6 one of them dead or canceled, 4 not in time (the same call again goes on "
        "waiting). --any returns at the first that settles, --fail-fast at the first that fails.",
        "`spoolctl list --json --tag run=42 --state dead --fields id,last_error` names what failed; "
        "page with --before.",
    )


def _verdict() -> "tuple[str, ...]":
    return (
        "`spoolctl feedback --json 7`: succeeded (true, false, or null while open), exit_code (negative: "
        "ended by the signal of that number, which signal names), failure_reason, the end of both "
        "streams, and remediation: the command that fits next, null when there is nothing to do.",
        f"`spoolctl feedback --json --tag run=42` does so for up to {limits.FEEDBACK_MAX} jobs; "
        "`spoolctl wait --json --tag run=42 --tail-bytes 2048` adds why each failed job failed.",
        "`spoolctl output 7 --stream stdout --raw > out.bin` gives the exact bytes; `spoolctl output "
        "--json 7 --tail-bytes 1000` the end. Output is kept for every attempt, also of killed ones, "
        "until the job is pruned.",
        "`spoolctl show --json 7` has everything: each attempt, each event, the environment as it was "
        "stored.",
    )


def _hand_over() -> "tuple[str, ...]":
    return (
        "You may be killed at any moment: what add has answered is on disk. Derive a key from the "
        "work, not from the session: `spoolctl add --json --key build-4711 -- make` twice is one job "
        "(deduplicated: true).",
        f"A key is free again once its job is {', '.join(TERMINAL[:-1])} or {TERMINAL[-1]}. With "
        "--key-scope kept a finished job counts too: the work is done once for as long as the job is "
        "kept.",
        "IDEMPOTENCY_CONFLICT: the active job with that key is another command; detail names it and "
        "the fields that differ.",
        "Tags carry what a successor needs: `spoolctl add --json --tag run=42 --tag step=build -- "
        "make`. It finds the work with `spoolctl list --json --tag run=42` and goes on with `spoolctl "
        "wait --json --tag run=42`.",
        "Wherever an ID is taken, `spoolctl feedback --json key:build-4711` means the newest job with "
        "the key, and 12-511 the jobs from 12 to 511.",
        f"A job can queue follow-up work: {env.JOB_DB} is the database's path, {env.JOB_ID} its own "
        f"id, {env.ATTEMPT} the number of this execution. Commands must bear to run again: a worker "
        "that dies after the command ended and before its result was recorded runs it once more.",
    )


def _safety(specs: "dict[str, Verb]") -> "tuple[str, ...]":
    gated = tuple(f"{name}: {spec.safety}." for name, spec in specs.items() if spec.safety)
    return (
        "Exit 2, SAFETY_BLOCK: nothing was done; remediation is the same call with its confirmation, "
        "or a look first. Decide before you run it: it does what was refused.",
        *gated,
        "`spoolctl cancel --json 7` never hurts what runs: it takes queued jobs only. `spoolctl cancel "
        "--json 7 --running --yes` ends the whole process tree first, and answers when it is gone.",
        "`spoolctl prune --json --older-than 7d --dry-run` says what would go.",
    )


def _streaming() -> "tuple[str, ...]":
    return (
        "`spoolctl events --json --follow` prints one event a line as it happens, from now on; with "
        "--since-id from there. --max-events and --idle-timeout end it, with a last line that holds "
        "control; a signal ends it with exit 0.",
        "`spoolctl events --json --since-id 100 --wait --wait-timeout 30s` answers as soon as there is "
        "something after event 100. Keep meta.pagination.cursor and pass it as the next --since-id: "
        "nothing is missed, nothing comes twice, also when you were killed in between.",
        "`spoolctl events --json --follow --job 7` follows one job. The words of event: "
        + ", ".join(event for event in EVENTS if event not in OF_LEASES)
        + ".",
    )


def _recovery(specs: "dict[str, Verb]") -> "tuple[str, ...]":
    grace = specs["work"].flag("grace")
    assert grace is not None
    return (
        "Nothing needs to be done when a worker is killed: any other worker notices within "
        f"{limits.NOTICED_WITHIN} seconds, ends what is left of its processes, and queues the jobs again "
        "with a delay; without another one the next to start does. status counts such jobs as orphaned "
        "until then.",
        "A job whose workers keep dying ends dead after max_crashes; a job that fails ends dead after "
        "max_retries. `spoolctl retry --json --all-dead --tag run=42` queues them again with a fresh "
        "budget.",
        "TERM to a worker: it takes nothing more, finishes what runs and leaves; a second TERM ends that, "
        f"with {grace.default} seconds of grace, and queues it again without spending its budget.",
        "KILL_ASYNC: the end of a running job was asked for and takes longer; `spoolctl wait --json 7` "
        "follows it.",
        "CONFLICT with why unverifiable_owner: the owner cannot be judged from here (another machine "
        "or container). Only when you know that it is dead: `spoolctl retry --json 7 --force "
        "--unverified`.",
        f"{_codes(specs, again=True)}: wait a moment and repeat. {_codes(specs, again=None)}: "
        "`spoolctl doctor --json --deep`.",
    )


def _codes(specs: "dict[str, Verb]", again: "bool | None") -> str:
    """The codes whose exit status says this of another try."""
    return ", ".join(code for code in errors_of(specs) if EXITS[ERRORS[code][0]][1] is again)
