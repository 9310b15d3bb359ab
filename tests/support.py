"""How a test calls the tool: in process (`run`), as a real process (`cli`, `start`), or in a scratch
directory of its own (the `spool` fixture). Every JSON answer is validated on the way.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from spoolctl import CONTRACT_VERSION, __version__, argv, emit, errors, registry
from spoolctl import cli as _cli
from spoolctl.contract.spec import Arg, Flag, Verb
from spoolctl.describe import schemas
from spoolctl.errors import SpoolctlError

ROOT = Path(__file__).resolve().parent.parent
PATIENCE = 60  # seconds a real process may take before the test gives up on it

ENVELOPE = ["ok", "tool_version", "data", "meta", "warnings", "commands", "errors"]
FRAME_VERBS = ("events", "output")
# What a remediation may name beside us.
STANDARD_TOOLS = (*"cat cd chmod df find ls mv ps sed ulimit unset".split(), sys.executable)


class Answer:
    """What a call gave. `json` is the envelope (None in text mode), `frames` the lines of a stream."""

    def __init__(self, tokens: list[str], exit: int, out: bytes, err: bytes) -> None:
        self.argv = tokens
        self.exit = exit
        self.out = out
        self.err = err.decode("utf-8")
        self.json: dict[str, Any] | None = None
        self.frames: list[dict[str, Any]] = []

    @property
    def text(self) -> str:
        return self.out.decode("utf-8")

    @property
    def data(self) -> Any:
        assert self.json is not None, f"no envelope: {self}"
        assert self.json["ok"], f"refused: {self}"
        return self.json["data"]

    @property
    def meta(self) -> dict[str, Any]:
        assert self.json is not None, f"no envelope: {self}"
        return self.json["meta"]

    @property
    def error(self) -> dict[str, Any] | None:
        assert self.json is not None, f"no envelope: {self}"
        return self.json["errors"][0] if self.json["errors"] else None

    @property
    def code(self) -> str | None:
        """The error's code, None when there is none; from stderr in text mode."""
        if self.json is not None:
            return self.error["code"] if self.error else None
        word = self.err.removeprefix("spoolctl: ").partition(":")[0]
        return word if self.exit and word in errors.ERRORS else None

    @property
    def warnings(self) -> list[str]:
        """The warnings' codes."""
        if self.json is not None:
            return [warning["code"] for warning in self.json["warnings"]]
        mark = "spoolctl: warning "
        return [
            line[len(mark) :].partition(":")[0] for line in self.err.splitlines() if line.startswith(mark)
        ]

    @property
    def commands(self) -> list[str]:
        assert self.json is not None, f"no envelope: {self}"
        return self.json["commands"]

    def __repr__(self) -> str:
        shown = " ".join(word if len(word) < 80 else word[:77] + "..." for word in self.argv)
        return f"<spoolctl {shown!r} exit={self.exit} out={self.out[-2000:]!r} err={self.err[-2000:]!r}>"


# --- the contract of one answer ---------------------------------------------------------------------------


def _no_double_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    assert len(keys) == len(set(keys)), f"a key stands twice: {keys}"
    return dict(pairs)


def _refuse_constant(name: str) -> Any:
    raise AssertionError(f"{name} is not JSON")


def strict_json(text: str) -> Any:
    """One JSON document and nothing else; no doubled keys, no NaN."""
    try:
        return json.loads(text, object_pairs_hook=_no_double_keys, parse_constant=_refuse_constant)
    except ValueError as wrong:
        raise AssertionError(f"not one JSON document: {wrong}: {text[:2000]!r}") from None


@cache
def shape_of_answers() -> dict[str, Any]:
    return registry.shapes()


def _strict(schema: dict[str, Any]) -> Draft202012Validator:
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


@cache
def validator(verb: str) -> Draft202012Validator:
    """The schema of a verb's whole answer."""
    return _strict(schemas.answer(registry.load(verb).SPEC, shape_of_answers()))


@cache
def special_validator(word: str) -> Draft202012Validator:
    """The schema of the answer to --help or --version."""
    return _strict(schemas.special(word, registry.specs(), shape_of_answers()))


@cache
def line_validator(verb: str) -> Draft202012Validator:
    """The schema of a line of the verb's stream."""
    name, shape = next(iter(shape_of_answers()[verb]["streams"].items()))
    assert name == f"{verb}_follow"
    return _strict(shape)


def _verb_of(tokens: list[str]) -> str | None:
    """The verb that a command line calls, None when it calls none that there is."""
    try:
        verb, _ = argv.split_verb(tokens)
    except SpoolctlError:
        return None
    return verb if verb in registry.VERBS else None


def _schema_of(tokens: list[str]) -> Draft202012Validator:
    verb = _verb_of(tokens)
    if verb is not None:
        return validator(verb)
    return special_validator(
        "version" if "--version" in tokens and not {"--help", "-h"} & set(tokens) else "help"
    )


def _check_declared(answer: Answer, document: dict[str, Any]) -> None:
    """A verb succeeds only with the statuses that its SPEC names; its codes are in its schema."""
    verb = _verb_of(answer.argv)
    if verb is not None and document["ok"] and answer.exit:
        spec = registry.load(verb).SPEC
        assert answer.exit in spec.exits, f"{verb} does not declare exit {answer.exit}: {answer}"


def _declares(answer: Answer) -> bool:
    """Whether the verb names this status as one of its answers."""
    verb = _verb_of(answer.argv)
    return verb is not None and answer.exit in registry.load(verb).SPEC.exits


def words_of(line: str) -> list[str]:
    """The words of a remediation or of one of `commands`, as a shell takes them apart."""
    printed = re.fullmatch(r"""eval "\$\(printf '([^']*)'\)\"""", line)
    if printed:
        plain = re.sub(
            rb"\\(\d{3})|%%",
            lambda m: bytes([int(m[1], 8)]) if m[1] else b"%",
            printed[1].encode("utf-8"),
        )
        line = plain.decode("utf-8", "surrogateescape")
    return shlex.split(line, comments=True)


def check_command(line: str) -> None:
    """A command that an answer names: one line, of a tool that is there, and of ours only what parses."""
    assert line.isprintable(), line
    words = words_of(line)
    assert words, line
    if words[0] != "spoolctl":
        assert words[0] in STANDARD_TOOLS, line
        return
    try:
        verb, rest = argv.split_verb(words[1:])
        if verb is None:
            assert rest in (["--help"], ["--version"]), line
        else:
            argv.parse(registry.load(verb).SPEC, rest)
    except SpoolctlError as error:
        raise AssertionError(f"{line!r} is refused: {error.code}: {error}") from None


def commands_in(document: dict[str, Any], verb: str | None) -> list[str]:
    """Every command that an answer names."""
    found = [*document["commands"], *(error["remediation"] for error in document["errors"])]
    found += [one["message"] for one in document["warnings"] if one["code"] == "NO_WORKER"]
    if verb == "doctor" and document["ok"] and "text" not in document["data"]:
        found += [check["remediation"] for check in document["data"]["checks"] if check["remediation"]]
    if verb == "feedback" and document["ok"] and "text" not in document["data"]:
        verdicts = document["data"].get("jobs", [document["data"]])
        found += [one["remediation"] for one in verdicts if one["remediation"] is not None]
    return found


def check_envelope(answer: Answer, mirrored: bool = True) -> None:
    """Everything SPEC 2.1 says about an answer in JSON mode. `mirrored`: stderr repeats an error."""
    assert answer.out.isascii(), answer
    assert answer.out.endswith(b"\n"), answer
    assert answer.out.count(b"\n") == 1, f"more than one line: {answer}"
    document = strict_json(answer.out.decode("ascii"))
    assert list(document) == ENVELOPE, answer
    answer.json = document

    found = list(_schema_of(answer.argv).iter_errors(document))
    if found and {"--help", "-h"} & set(answer.argv) and document["ok"] and answer.exit == 0:
        found = list(special_validator("help").iter_errors(document))
    shown = [f"{error.json_path}: {error.message[:300]}" for error in found[:5]]
    assert not found, "the answer does not fit its schema:\n  " + "\n  ".join(shown) + f"\n{answer}"

    assert document["tool_version"] == __version__
    assert document["meta"]["contract_version"] == CONTRACT_VERSION
    hashed = document["meta"]["data_hash"]
    assert hashed == emit.data_hash(document["data"]) == hash_of(document["data"]), f"data_hash: {answer}"
    assert document["ok"] is (not document["errors"]), answer
    assert (document["data"] is None) is (not document["ok"]), answer
    for warning in document["warnings"]:
        assert warning["code"] in errors.WARNINGS, answer
    _check_declared(answer, document)
    for line in commands_in(document, _verb_of(answer.argv)):
        check_command(line)
    if document["ok"]:
        assert answer.exit == 0 or _verb_of(answer.argv), answer
        assert answer.err == "", f"stderr must stay empty on success: {answer}"
        return
    error = document["errors"][0]
    assert error["code"] in errors.ERRORS, answer
    assert answer.exit == error["exit_code"] == errors.ERRORS[error["code"]][0], answer
    assert error["message"], answer
    if mirrored:
        assert answer.err.startswith(f"spoolctl: {error['code']}: "), answer
        assert answer.err.endswith("\n"), answer
        assert answer.err.count("\n") == 1, f"the mirror is one line: {answer}"
    else:
        assert answer.err == "", answer


def hash_of(data: object) -> str:
    """`data_hash`, made the ordinary way."""
    import hashlib

    canonical = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return "sha256:" + hashlib.sha256(canonical.encode("ascii")).hexdigest()


def checked(answer: Answer, env: dict[str, str], check: int | None = None) -> Answer:
    """`answer` with its JSON read and validated, where its command line asked for JSON."""
    assert "Traceback (most recent call last)" not in answer.err, answer
    if argv.wants_json(answer.argv) and not (answer.exit == 0 and answer.out == b"" and _streams(answer)):
        if _streams(answer) and not answer.out.startswith(b'{"ok": '):
            answer.frames = [checked_line(line, answer.argv) for line in answer.text.splitlines()]
            assert answer.out.endswith(b"\n"), answer
        else:
            check_envelope(answer, mirrored=env.get("SPOOLCTL_STDERR") != "off")
    elif answer.exit in range(1, 6):
        assert answer.err or (answer.out and _declares(answer)), f"a refusal says why: {answer}"
        for line in answer.err.splitlines():
            if line.startswith("hint: "):
                check_command(line.removeprefix("hint: "))
    if check is not None:
        assert answer.exit == check, answer
    return answer


def document(out: bytes | str, *words: str, status: int | None = None) -> dict[str, Any]:
    """The answer to `spoolctl WORDS --json` that was caught as text, validated as `checked` does; `words` may
    be the verb alone. `status` is the exit status, where it is known."""
    data = out if isinstance(out, bytes) else out.encode()
    answer = Answer([*words, "--json"], 0, data, b"")
    envelope = strict_json(data.decode("ascii"))
    assert isinstance(envelope, dict) and list(envelope) == ENVELOPE, answer
    for error in envelope["errors"]:
        answer.exit, answer.err = error["exit_code"], f"spoolctl: {error['code']}: \n"
    if status is not None:
        answer.exit = status
    check_envelope(answer)
    return envelope


def checked_line(line: str, tokens: list[str]) -> dict[str, Any]:
    """One line of a stream in JSON, validated."""
    assert line.isascii(), line
    frame = strict_json(line)
    verb = _verb_of(tokens)
    assert verb is not None
    found = [f"{error.json_path}: {error.message[:300]}" for error in line_validator(verb).iter_errors(frame)]
    assert not found, f"the line does not fit its schema: {found} {line}"
    return frame


def _streams(answer: Answer) -> bool:
    words = answer.argv
    return "--follow" in words and any(verb in words for verb in FRAME_VERBS)


def refused(answer: Answer, code: str = "INVALID_INPUT", **detail: object) -> dict[str, Any]:
    """The error of an answer in JSON mode, which must have this code, a way out, and these facts."""
    error = answer.error
    assert error is not None, f"not refused: {answer}"
    assert error["code"] == code, answer
    assert error["remediation"], answer
    for name, value in detail.items():
        assert error["detail"][name] == value, answer
    return error


# --- calling ----------------------------------------------------------------------------------------------


class Memory:
    """A sink that keeps what it is given."""

    def __init__(self, tty: bool = False) -> None:
        self.kept = bytearray()
        self.tty = tty

    def write(self, data: bytes) -> None:
        self.kept += data

    def try_write(self, data: bytes) -> bool:
        self.kept += data
        return True

    def isatty(self) -> bool:
        return self.tty


def clean_env(**more: str) -> dict[str, str]:
    """The environment tests run in: nothing of ours inherited, a fixed zone, no colours."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SPOOLCTL_", "LC_", "PYTHON"))}
    for name in ("NO_COLOR", "VIRTUAL_ENV", "PWD", "OLDPWD", "LANG", "LANGUAGE"):
        kept.pop(name, None)
    kept |= {"TZ": "UTC", "TERM": "xterm", "LANG": "C.UTF-8", "PYTHONPATH": str(ROOT)}
    kept |= more
    return kept


@contextmanager
def inside(folder: os.PathLike[str] | str | None) -> Iterator[str]:
    """This process in another directory, and back."""
    before = os.getcwd()
    if folder is not None:
        os.chdir(folder)
    try:
        yield os.getcwd()
    finally:
        os.chdir(before)


def run(
    *tokens: str,
    cwd: os.PathLike[str] | str | None = None,
    env: dict[str, str] | None = None,
    stdin: bytes = b"",
    check: int | None = None,
    tty: bool = False,
) -> Answer:
    """The call in this process. `env` adds to a clean environment; `check` is the status it must have."""
    words = [str(token) for token in tokens]
    with inside(cwd) as here, tempfile.TemporaryFile() as feed:
        feed.write(stdin)
        feed.flush()
        feed.seek(0)
        environ = clean_env(PWD=here) | (env or {})
        out, err = Memory(tty), Memory(tty)
        context = _cli.Context(environ, out, err, stdin=feed.fileno())  # type: ignore[arg-type]
        try:
            status = _cli.run(words, context)
        finally:
            context.close()
    return checked(Answer(words, status, bytes(out.kept), bytes(err.kept)), environ, check)


def command(*tokens: str | bytes) -> list[str | bytes]:
    return [sys.executable, "-m", "spoolctl", *tokens]


def cli(
    *tokens: str,
    cwd: os.PathLike[str] | str | None = None,
    env: dict[str, str] | None = None,
    stdin: bytes = b"",
    check: int | None = None,
    timeout: float = PATIENCE,
    **popen: Any,
) -> Answer:
    """The call as a process of its own."""
    words = [str(token) for token in tokens]
    environ = clean_env(**(env or {}))
    done = subprocess.run(
        command(*words), cwd=cwd, env=environ, input=stdin, capture_output=True, timeout=timeout, **popen
    )
    return checked(Answer(words, done.returncode, done.stdout, done.stderr), environ, check)


def start(
    *tokens: str,
    cwd: os.PathLike[str] | str | None = None,
    env: dict[str, str] | None = None,
    **popen: Any,
) -> subprocess.Popen[bytes]:
    """The call as a process that goes on, in a session of its own; `finish` gives its answer."""
    words = [str(token) for token in tokens]
    options: dict[str, Any] = {
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "start_new_session": True,
    }
    return subprocess.Popen(command(*words), cwd=cwd, env=clean_env(**(env or {})), **options | popen)


def _words_of(line: list[Any]) -> list[str]:
    """The tokens of a call: what follows `-m spoolctl`, or the program of `python -c`."""
    words = [str(word) for word in line]
    named = [n for n in range(len(words)) if words[n : n + 2] == ["-m", "spoolctl"]]
    return words[named[0] + 2 :] if named else words[3:]


def finish(
    process: subprocess.Popen[bytes],
    timeout: float = PATIENCE,
    check: int | None = None,
    words: tuple[str, ...] = (),
) -> Answer:
    """Wait for a started process. Its exit is negative when a signal ended it. `words`: the tokens of the
    call, where its program takes more than these."""
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"did not end in {timeout} s: {process.args} {out!r} {err!r}") from None
    tokens = list(words) or _words_of(process.args)  # type: ignore[arg-type]
    answer = Answer(tokens, process.returncode, out or b"", err or b"")
    if answer.exit < 0:  # ended by a signal: nothing more on stdout
        return answer
    return checked(answer, {}, check)


# --- command lines made from a verb's contract ------------------------------------------------------------


def valid_word(flag: Flag | Arg) -> str:
    """A value that a flag or argument accepts."""
    assert flag.type is not None
    words = flag.type.probes()["valid"]
    return words[0] if words else "x"


def valid_line(
    spec: Verb, *dests: str, without: tuple[str, ...] = (), values: dict[str, str] | None = None
) -> list[str]:
    """Tokens (behind the verb) that give these dests and else only what the verb cannot do without.

    `values` has words to use instead of a valid one.
    """
    known = {flag.dest for flag in spec.flags} | {arg.dest for arg in spec.args}
    assert known.issuperset(dests), f"{spec.name} has no {set(dests) - known}"
    chosen = dict.fromkeys(dests)
    for flag in spec.flags:
        if flag.required and flag.dest not in without:
            chosen[flag.dest] = None
    for dest in list(chosen):
        needed = [other for other in spec.needs.get(dest, ()) if other not in without]
        if needed and not set(needed) & set(chosen):
            chosen[needed[0]] = None
    needed_args = [arg.dest for arg in spec.args if arg.nargs in ("1", "+") and arg.dest not in without]
    chosen.update(dict.fromkeys(needed_args))
    if spec.one_of and not set(spec.one_of) & set(chosen):
        clashes = {b for a, b in _both_ways(spec.exclusive) if a in chosen} | set(without)
        chosen[next(dest for dest in spec.one_of if dest not in clashes)] = None

    words = values or {}
    tokens: list[str] = []
    for flag in spec.flags:
        if flag.dest in chosen:
            tokens += [f"{flag.name}={words.get(flag.dest, valid_word(flag))}" if flag.type else flag.name]
    for arg in spec.args:
        if arg.dest in chosen:
            word = words.get(arg.dest, "true" if arg.nargs == "remainder" else valid_word(arg))
            tokens += ["--", word] if arg.nargs == "remainder" else [word]
    return tokens


def _both_ways(pairs: tuple[tuple[str, str], ...]) -> list[tuple[str, str]]:
    return [*pairs, *((b, a) for a, b in pairs)]


# --- waiting and processes --------------------------------------------------------------------------------


def wait_until(predicate: Callable[[], Any], seconds: float = 30, message: str = "") -> Any:
    """The first true value of `predicate`, looked at again and again; fails after `seconds`."""
    deadline = time.monotonic() + seconds
    pause = 0.002
    while True:
        value = predicate()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {message or predicate}")
        time.sleep(pause)
        pause = min(pause * 1.5, 0.05)


def alive(pid: int) -> bool:
    """Whether a process of this number runs; a zombie does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return not Path("/proc/self/stat").exists()
    return stat.rpartition(b")")[2].split()[0] not in (b"Z", b"X")


def processes_of(folder: Path, db: Path) -> list[tuple[int, str]]:
    """(pid, command) of each live process that a job of this queue left: by its environment or directory."""
    mark = b"SPOOLCTL_JOB_DB=" + os.fsencode(db)
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        pid = int(entry.name)
        if pid == os.getpid():
            continue
        try:
            here = os.readlink(entry / "cwd")
            belongs = mark in (entry / "environ").read_bytes().split(b"\0")
            words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
        except OSError:
            continue
        if (belongs or here == str(folder) or here.startswith(f"{folder}/")) and alive(pid):
            found.append((pid, words))
    return sorted(found)


def signal_quietly(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


class Spool:
    """A scratch directory with calls bound to it; what it starts is ended with the test."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.env: dict[str, str] = {}
        self.may_leave_processes = False
        self._started: list[subprocess.Popen[bytes]] = []

    @property
    def db(self) -> Path:
        return self.path / ".spoolctl" / "queue.db"

    @property
    def output(self) -> Path:
        return self.path / ".spoolctl" / "output"

    def run(self, *tokens: str, **options: Any) -> Answer:
        return run(*tokens, **self._bound(options))

    def cli(self, *tokens: str, **options: Any) -> Answer:
        return cli(*tokens, **self._bound(options))

    def start(self, *tokens: str, **options: Any) -> subprocess.Popen[bytes]:
        process = start(*tokens, **self._bound(options))
        self._started.append(process)
        return process

    def _bound(self, options: dict[str, Any]) -> dict[str, Any]:
        env = self.env | (options.pop("env", None) or {})
        return {"cwd": self.path, "env": env} | options

    def json(self, *tokens: str, **options: Any) -> Any:
        """`data` of a call in JSON mode (`--json` is added after the verb)."""
        return self.run(tokens[0], "--json", *tokens[1:], **options).data

    def add(self, *tokens: str, **options: Any) -> int:
        """Add a job; the tokens are those of `add`. Without any: `-- true`. Returns its id."""
        return int(self.json("add", *(tokens or ("--", "true")), **options)["job_id"])

    def work(self, *tokens: str, **options: Any) -> Answer:
        """`work --drain` (or what the tokens say) as a real process, to its end."""
        mode = () if {"--once", "--drain", "--idle-timeout", "--max-jobs"} & set(tokens) else ("--drain",)
        return self.cli("work", "--json", *mode, *tokens, **options)

    def show(self, job_id: int) -> Any:
        return self.json("show", str(job_id))

    def state(self, job_id: int) -> str:
        return str(self.show(job_id)["job"]["state"])

    def wait_for(self, job_id: int, *states: str, seconds: float = 30) -> str:
        """Wait until the job is in one of the states."""
        seen: list[str] = []

        def there() -> bool:
            seen[:] = [self.state(job_id)]
            return seen[0] in states

        wait_until(there, seconds, f"job {job_id} to be {' or '.join(states)}")
        return seen[0]

    def files(self) -> list[str]:
        """Every file and directory below the scratch directory."""
        return sorted(str(path.relative_to(self.path)) for path in self.path.rglob("*"))

    def leaves_processes(self) -> None:
        """Say that this test leaves processes of jobs behind on purpose."""
        self.may_leave_processes = True

    def stop(self, process: subprocess.Popen[bytes], timeout: float = 20) -> int:
        """End a worker in order (two TERMs: its jobs are ended and queued again)."""
        deadline = time.monotonic() + timeout
        while process.poll() is None and time.monotonic() < deadline:
            process.send_signal(signal.SIGTERM)  # again and again: two that are pending at once count as one
            try:
                process.wait(0.3)
            except subprocess.TimeoutExpired:
                pass
        try:
            process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
        return process.returncode

    def close(self) -> None:
        """End everything; fails when a job's process was left."""
        for process in self._started:
            if process.poll() is None:
                signal_quietly(process.pid, signal.SIGCONT)
                self.stop(process)
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe:
                    pipe.close()
        left = processes_of(self.path, self.db)
        for pid, _ in left:
            signal_quietly(pid, signal.SIGKILL)
        for pid, _ in left:
            wait_until(lambda pid=pid: not alive(pid), 10, f"the end of process {pid}")
        if left and not self.may_leave_processes:
            raise AssertionError(f"processes were left behind: {left}")
