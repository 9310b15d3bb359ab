"""One answer against what was expected of it: everything that the documents promise, as findings in words.

No finding is an exception: a judge never stops at the first.
"""

from __future__ import annotations

import json
import re
from typing import Any

from .calls import Call
from .contract import Contract, Verb, before_dashes
from .envelope import Envelopes, strict

ERROR_LINE = re.compile(r"^([a-z]+): ([A-Z_]+): (.+)$")

# A call in order may meet the state of the queue or of the files, but never these.
NEVER = {"UNKNOWN_FLAG", "UNKNOWN_COMMAND", "MISSING_REQUIRED", "INTERNAL"}
OF_THE_MACHINE = {"LOCKED", "DISK_FULL", "DB_READONLY"}


class Answer:
    __slots__ = ("err", "exit", "left", "out", "touched")

    def __init__(self, exit: int | None, out: bytes, err: bytes) -> None:
        self.exit = exit  # None: it did not end in time
        self.out = out
        self.err = err
        self.left = False  # whether something of its process group lived on
        self.touched: list[str] = []  # what it made in an empty directory


class Judge:
    def __init__(self, contract: Contract) -> None:
        self.contract = contract
        self.envelopes = Envelopes(contract)
        self.succeeded: set[str] = set()  # the verbs that answered with ok
        silent = re.search(r"(\w+)=(\w+) silences", contract.doc["totality"]["envelope"]["failure_stderr"])
        self.silent = (silent[1], silent[2]) if silent else None

    def findings(self, call: Call, answer: Answer) -> list[str]:
        """What is wrong with `answer`; empty when it is all that was promised."""
        if answer.exit is None:
            return ["it did not end in time"]
        found = []
        if answer.exit < 0 or str(answer.exit) not in self.contract.doc["exit_codes"]:
            found.append(f"exit {answer.exit} is no exit code of the contract")
        if b"Traceback (most recent call last)" in answer.err + answer.out:
            found.append("a traceback")
        if answer.left:
            found.append("a process of its group was left behind")
        verb = self.contract.verbs.get(call.verb or "")
        if answer.touched and (call.expected.code or (verb is not None and not verb.doc["mutates"])):
            found.append(f"a call that changes nothing made {answer.touched}")
        if self._in_json(call):
            return found + self._json(call, answer, verb)
        raw = verb is not None and verb.selects("raw", call.tokens)
        return found + self._text(call, answer, verb, raw)

    def silent_verbs(self) -> list[str]:
        """The verbs of which no call was answered with ok: nothing was learnt of their data."""
        return [name for name in self.contract.verbs if name not in self.succeeded]

    def _in_json(self, call: Call) -> bool:
        return any(token.partition("=")[0] == "--json" for token in before_dashes(call.tokens))

    def _json(self, call: Call, answer: Answer, verb: Verb | None) -> list[str]:
        first = answer.out.split(b"\n")[0]
        if verb is not None and verb.selects("frames", call.tokens) and not first.startswith(b'{"ok"'):
            return self._frames(call, answer, verb)
        try:
            document = strict(answer.out)
        except ValueError as reason:
            return [f"stdout is not one JSON document: {reason}: {answer.out[:200]!r}"]
        found = self.envelopes.findings(document, verb, call.expected.special)
        if found:
            return found
        found = self._mirrored(call, answer, document)
        if document["ok"]:
            found += self._of_success(call, answer, verb)
            return found
        error = document["errors"][0]
        if answer.exit != error["exit_code"]:
            found.append(f"exit {answer.exit}, but the error says {error['exit_code']}")
        return found + self._of_refusal(call, answer, verb, error["code"], error)

    def _frames(self, call: Call, answer: Answer, verb: Verb) -> list[str]:
        found = [] if call.expected.code is None else [f"{call.expected} was expected, a stream came"]
        if answer.out and not answer.out.endswith(b"\n"):
            found.append("the last line of the stream is cut")
        told = 0  # by the control line of an error
        for line in answer.out.splitlines():
            try:
                frame = strict(line + b"\n")
            except ValueError as reason:
                found.append(f"a line of the stream is not JSON: {reason}")
                continue
            found += self.envelopes.line_findings(frame, verb)
            told = frame.get("control", {}).get("exit_code", 0)
        if answer.exit != told:
            found.append(f"exit {answer.exit}, but the stream says {told}")
        return found + ([f"stderr is not empty: {answer.err[:200]!r}"] if answer.err else [])

    def _mirrored(self, call: Call, answer: Answer, document: dict[str, Any]) -> list[str]:
        """In JSON mode stderr holds the error's line, or nothing."""
        lines = answer.err.decode("utf-8", "replace").splitlines()
        silent = self.silent is not None and call.env.get(self.silent[0]) == self.silent[1]
        if document["ok"] or silent:
            return [f"stderr is not empty: {lines[:3]}"] if lines else []
        error = document["errors"][0]
        if len(lines) != 1 or not lines[0].startswith(f"{self.contract.tool}: {error['code']}: "):
            return [f"stderr is not the one line of the error: {lines[:3]}"]
        return []

    def _text(self, call: Call, answer: Answer, verb: Verb | None, raw: bool) -> list[str]:
        lines = answer.err.decode("utf-8", "replace").splitlines()
        told = [match for match in map(ERROR_LINE.match, lines) if match and match[1] == self.contract.tool]
        if not told:
            found = self._of_success(call, answer, verb)
            if call.expected.special:
                found += self._special(call, answer)
            return found
        found = [] if len(told) == 1 else [f"{len(told)} errors on stderr"]
        if len(lines) == len(told):
            found.append("an error without a hint")
        if answer.out:
            found.append(f"an error, and something on stdout: {answer.out[:200]!r}")
        return found + self._of_refusal(call, answer, verb, told[0][2], None)

    def _special(self, call: Call, answer: Answer) -> list[str]:
        doc = self.contract.doc
        if call.expected.special == "version":
            wanted = f"{doc['tool_name']} {doc['tool_version']}\n".encode()
            return [] if answer.out == wanted else [f"not {wanted!r}: {answer.out[:100]!r}"]
        return self.envelopes.help_findings(answer.out.decode("utf-8", "replace"), call.verb)

    def _of_success(self, call: Call, answer: Answer, verb: Verb | None) -> list[str]:
        if call.expected.code is not None:
            return [f"{call.expected} was expected, but it went through with exit {answer.exit}"]
        if call.expected.special is None and verb is not None:
            self.succeeded.add(verb.name)
            if answer.exit not in verb.doc["exit_codes"]:
                return [f"exit {answer.exit} is none of {verb.name}"]
        if answer.exit and answer.exit not in self.contract.ends_with_ok():
            return [f"exit {answer.exit} without an error"]
        return []

    def _of_refusal(
        self, call: Call, answer: Answer, verb: Verb | None, code: str, error: dict[str, Any] | None
    ) -> list[str]:
        """The refusal is one that the verb declares, and the expected one where one is expected."""
        found = []
        row = self.contract.doc["code_registry"].get(code, {})
        if answer.exit != row.get("exit_code"):
            found.append(f"exit {answer.exit} is not that of {code}")
        if verb is not None and code not in verb.doc["errors"]:
            found.append(f"{verb.name} does not declare {code}")
        expected = call.expected
        if expected.code is None:
            return found + self._bad_excuse(call, code, error)
        if (code, answer.exit) != (expected.code, expected.exit_code):
            found.append(f"{expected} was expected, not {code}, exit {answer.exit}")
        elif error is not None:
            named, hint = error["detail"].get("flag"), error.get("did_you_mean")
            if expected.flags and named not in expected.flags:
                found.append(f"it names {named}, not {' or '.join(sorted(expected.flags))}")
            if expected.near and hint not in expected.near:
                found.append(f"it suggests {hint}, not {' or '.join(sorted(expected.near))}")
        return found

    def _bad_excuse(self, call: Call, code: str, error: dict[str, Any] | None) -> list[str]:
        """A call in order is refused for what it meets, not for how it is written."""
        told = f": {json.dumps(error['message'])}" if error else ""
        if code in NEVER | OF_THE_MACHINE:
            return [f"a call in order is answered with {code}{told}"]
        verb = self.contract.verbs.get(call.verb or "")
        if code == "INVALID_INPUT" and verb is not None and error is not None:
            named = error["detail"].get("flag")
            kinds = {item["name"]: item["type"] for item in (*verb.flags.values(), *verb.args)}
            if kinds.get(named) != "path" and not self._reads_a_file(call, named, kinds):
                return [f"a call in order is refused, naming {named}{told}"]
        return []

    def _reads_a_file(self, call: Call, named: str | None, kinds: dict[str, str]) -> bool:
        """Whether it names nothing of the verb, and the call is about a path: it is of what is there."""
        return named not in kinds and kinds.get(call.subject) == "path"
