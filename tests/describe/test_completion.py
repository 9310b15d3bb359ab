"""Completion in real shells: every verb and flag of the registry, then the cases that need thought.

What is expected is read off the specs here anew, so that the scripts cannot forget a flag.
"""

from __future__ import annotations

import pytest
from shells import SHELLS, STAND_IN, Shell, Terminal, install

from spoolctl import registry
from spoolctl.contract.spec import BEFORE_VERB
from spoolctl.contract.types import Choice, JobRef, Key, Lane, Path, Tag, VerbName
from spoolctl.describe import completion

SPECS = registry.specs()
WORDS = {
    JobRef: {"12", "7"},
    Lane: {"builds", "default"},
    Key: {"nightly", "other"},
    Tag: {"run=42", "host=a"},
}
ODD = ["$(touch pwned)", "`touch pwned`;x", "a b'c\"", "nightly!1;x & \\y"]


@pytest.fixture(params=SHELLS)
def shell(request, tmp_path):
    """A shell with the script, and something fast in the place of spoolctl."""
    one = Shell(request.param, tmp_path)
    install(tmp_path, STAND_IN)
    (tmp_path / "script").write_text(completion.script(request.param, SPECS))
    return one


def plain(offered):
    """What is offered, without descriptions and the quotes of the shell; a directory without its slash."""
    return {word.partition("\t")[0].replace("\\", "").removesuffix("/") for word in offered}


def spellings(flags):
    return {name for flag in flags for name in (flag.name, flag.short) if name}


def of_type(kind, folder):
    """What completes a value of a type; None where it is files."""
    if isinstance(kind, Path):
        return None
    if type(kind) in WORDS:
        return WORDS[type(kind)]
    if isinstance(kind, VerbName):
        return set(registry.VERBS)
    if kind.choices:
        return set(kind.choices)
    return {"none"} if kind.none else set()


def test_every_shell_accepts_its_script_and_starts_nothing_when_it_reads_it(shell):
    assert shell.run("--no-execute" if shell.name == "fish" else "-n", "script").stderr == ""
    strict = {"bash": "set -eu; ", "zsh": "setopt err_exit no_unset warn_create_global; ", "fish": ""}[
        shell.name
    ]
    quiet = {"bash": ["--norc", "-c"], "zsh": ["-f", "-c"], "fish": ["-c"]}[shell.name]
    done = shell.run(*quiet, f"{strict}source ./script")  # zsh: without compinit
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert shell.calls() == []


def test_every_verb_flag_and_value_of_the_registry_is_offered(shell):
    """Also what one flag takes away, and that no TAB starts more than one process."""
    expected: dict[str, set[str] | None] = {"spoolctl ": set(SPECS), "spoolctl -": spellings(BEFORE_VERB)}
    asking = 0
    for name, verb in SPECS.items():
        everything = spellings(verb.flags)
        remainder = any(arg.nargs == "remainder" for arg in verb.args)
        separator = {"--"} if remainder and shell.name == "bash" else set()
        expected[f"spoolctl {name} -"] = everything | separator
        for flag in verb.flags:
            value = "" if flag.type is None else "=x"
            excluded = {b if a == flag.dest else a for a, b in verb.exclusive if flag.dest in (a, b)}
            gone = spellings([one for one in verb.flags if one.dest in excluded])
            gone |= set() if flag.repeat else spellings([flag])
            positional = any(arg.dest in excluded for arg in verb.args)
            if flag.dest != "help":
                expected[f"spoolctl {name} {flag.name}{value} -"] = everything - gone | (
                    set() if positional else separator
                )
            if flag.type is None:
                continue
            words = of_type(flag.type, shell.folder)
            for written in (f"{flag.name} ", f"{flag.name}="):
                expected[f"spoolctl {name} {written}"] = words
                asking += type(flag.type) in WORDS
        for arg in verb.args:
            if arg.nargs != "remainder":
                words = of_type(arg.type, shell.folder)
                expected[f"spoolctl {name} "] = words
                asking += type(arg.type) in WORDS
    found = shell.offers(list(expected))
    for line, words in expected.items():
        lead = line.split()[-1] if line.endswith("=") else ""
        offered = {word.removeprefix(lead) for word in plain(found[line])}
        if words is None:
            assert {"lines", "bin", "home"} & offered, (line, offered)
        else:
            assert offered == words, line
    assert len(shell.calls()) == asking


CASES = {
    "spoolctl st": {"status"},
    "spoolctl --json st": {"status"},
    "spoolctl --db ./x.db --json st": {"status"},
    "spoolctl list --queue b": {"builds"},
    "spoolctl list -q=b": {"builds"},
    "spoolctl list --state queued,de": {"queued,dead"},
    "spoolctl list --state=queued,dea": {"queued,dead"},
    "spoolctl prune --state dead,": {"dead,done", "dead,canceled"},
    "spoolctl list --nosuch=": set(),
    "spoolctl nosuch ": set(),
    "spoolctl list --limit ": set(),
    "spoolctl show k": {"key:nightly", "key:other"},
    "spoolctl show key:n": {"key:nightly"},
    "spoolctl events --job key:n": {"key:nightly"},
    "spoolctl wait 7 1": {"12"},
    "spoolctl wait -- ": {"12", "7"},
    "spoolctl wait -- -": set(),
    "spoolctl show 7 8": set(),
    "spoolctl completion --words jobs ": None,
    "spoolctl cancel --state queued ": None,
    "spoolctl add --cwd h": {"home"},
    "spoolctl add --from=scr": {"script"},
    "spoolctl add -- sort sc": {"script"},
    "spoolctl add sort sc": {"script"},
    "spoolctl add -- cksu": {"cksum"},
    "spoolctl add --note x cksu": {"cksum"},
    "spoolctl add --json --tag a=b -- cksu": {"cksum"},
    "spoolctl add --from x sc": set(),
}


def test_lines_that_need_thought(shell):
    found = shell.offers(list(CASES))
    flags = {name for line in ("completion", "cancel") for name in spellings(SPECS[line].flags)}
    for line, words in CASES.items():
        offered = plain(found[line])
        lead = max((word for word in ("key:", "dead,", "queued,") if word in line), key=len, default="")
        if "=" in line.split()[-1]:
            lead = line.split()[-1].partition("=")[0] + "="
            offered = {word.removeprefix(lead) for word in offered}
        elif words:
            offered = {word if word in words else lead + word for word in offered}
        if words and "queued,dead" in words:
            offered = {word if "," in word else "queued," + word for word in offered}
        if words is None:  # no argument may follow: what flags are left
            assert offered and offered <= flags, line
        else:
            assert offered == words, line


def test_the_queue_that_the_line_names_is_the_one_that_is_asked(shell):
    shell.offers(["spoolctl --db '~/a b.db' list -q builds --tag ", "spoolctl wait --db=~/x.db --queue=l "])
    home = shell.folder / "home"
    assert [call.replace(" -q ", " --queue ") for call in shell.calls()] == [
        f"completion --words tags --db {home}/a b.db --queue builds",
        f"completion --words jobs --db {home}/x.db --queue l",
    ]


def test_a_command_of_the_users_is_left_to_what_bash_completion_knows_of_it(tmp_path):
    bash = Shell("bash", tmp_path)
    stub = "_command_offset() { COMPREPLY=($1); }\n"
    (tmp_path / "script").write_text(stub + completion.script("bash", SPECS))
    lines = [
        "spoolctl add --note=a -- make al",
        "spoolctl add make al",
        "spoolctl add -- ma",
        "spoolctl add ma",
    ]
    assert [words for _, words in bash.offers(lines).items()] == [["4"], ["2"], ["3"], ["2"]]


TYPED = [
    ("key:\\$", "$(touch pwned)"), ("'key:$", "$(touch pwned)"), ('"key:\\$', "$(touch pwned)"),
    ("key:\\`", "`touch pwned`;x"), ('"key:\\`', "`touch pwned`;x"), ("key:a\\ ", "a b'c\""),
    ("'key:a", "a b'c\""), ('"key:a', "a b'c\""), ("key:n", "nightly!1;x & \\y"),
    ('"key:n', "nightly!1;x & \\y"), ("'key:n", "nightly!1;x & \\y"),
]  # fmt: skip


@pytest.mark.parametrize("name", ["bash", "zsh"])
def test_a_key_is_typed_by_tab_as_it_is_and_never_run(name, spool):
    """An interactive shell and the real command: what arrives behind TAB and return is the key itself."""
    shell = Shell(name, spool.path)
    install(spool.path)
    for key in ODD:
        spool.add("--key", key, "--", "true")
    words = ["--norc", "--noprofile", "-i"] if name == "bash" else ["-f", "-i"]
    terminal = Terminal([shell.program, *words], spool.path)
    said, ready = spool.path / "said", spool.path / "ready"
    begin = "" if name == "bash" else "autoload -Uz compinit; compinit -D -u; "
    begin += f'eval "$(spoolctl completion {name})"; '
    begin += "spoolctl() { printf '%s\\n' \"$@\" >said.new; mv said.new said; }; : >ready\r"
    try:
        terminal.type(begin, ready)
        for typed, key in TYPED:
            terminal.type(f"spoolctl show {typed}\t\r", said)
            assert said.read_text() == f"show\nkey:{key}\n", (typed, terminal.seen[-500:])
    finally:
        terminal.close()
    assert not (spool.path / "pwned").exists()
    assert shell.calls()[1:] == ["completion --words keys"] * len(TYPED)


def test_fish_is_told_keys_as_text_and_what_flags_and_jobs_are(spool):
    shell = Shell("fish", spool.path)
    install(spool.path)
    for key in ODD:
        spool.add("--key", key, "--", "true", key)
    (spool.path / "script").write_text(spool.run("completion", "fish").text)
    found = shell.offers(["spoolctl show key:", "spoolctl show ", "spoolctl list --", "spoolctl li"])
    assert found["spoolctl show key:"] == [f"key:{key}" for key in reversed(ODD)]
    assert found["spoolctl show "][-1] == "1\tqueued true $(touch pwned)"
    assert f"--queue\t{SPECS['list'].flag('queue').help}" in found["spoolctl list --"]
    assert found["spoolctl li"] == ["list\tlist jobs, newest first"]
    assert not (spool.path / "pwned").exists()


def test_zsh_takes_the_script_from_a_directory_of_fpath(tmp_path):
    zsh = Shell("zsh", tmp_path)
    (tmp_path / "_spoolctl").write_text(completion.script("zsh", SPECS))
    (tmp_path / "script").write_text("fpath=($PWD $fpath); compinit -D -u\n")
    assert plain(zsh.offers(["spoolctl sta"])["spoolctl sta"]) == {"status"}


def test_choices_are_words_that_no_shell_has_to_quote():
    for verb in SPECS.values():
        for holder in (*verb.flags, *verb.args):
            for word in isinstance(holder.type, Choice) and holder.type.choices or ():
                assert word.replace("_", "").replace("-", "").isalnum(), (verb.name, word)
