"""Documents against their schemas, and against what a schema cannot say: hashes, codes, next commands."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import subprocess
from typing import Any

from jsonschema import Draft202012Validator

from .contract import Contract, Verb, before_dashes


def _no_double_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise ValueError("a key stands twice")
    return dict(pairs)


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def strict(data: bytes) -> Any:
    """The one document on the one line of `data`; ValueError for anything else."""
    if not data.isascii():
        raise ValueError("it is not ASCII")
    if not data.endswith(b"\n") or data.count(b"\n") != 1:
        raise ValueError(f"not one line, but {len(data.splitlines())}")
    return json.loads(data, object_pairs_hook=_no_double_keys, parse_constant=_refuse)


def hash_of(data: object) -> str:
    canonical = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return "sha256:" + hashlib.sha256(canonical.encode("ascii")).hexdigest()


class Envelopes:
    """Validators, made once; equal data of one verb is validated once."""

    def __init__(self, contract: Contract) -> None:
        self.contract = contract
        self.whole = Draft202012Validator(contract.schema["envelope_schema"])
        self.data = {name: Draft202012Validator(one) for name, one in contract.schema["verbs"].items()}
        self.lines = {name: Draft202012Validator(one) for name, one in contract.schema["streams"].items()}
        self.good: set[tuple[str, str]] = set()

    def findings(self, document: Any, verb: Verb | None, special: str | None) -> list[str]:
        # The schema of the envelope leaves data to the verb's; a large one is not walked twice.
        found = _misfits(self.whole, document)
        if found:
            return found
        meta = document["meta"]
        if meta["data_hash"] != hash_of(document["data"]):
            found.append("data_hash is not the hash of data")
        if document["tool_version"] != self.contract.doc["tool_version"]:
            found.append(f"tool_version {document['tool_version']}")
        for command in document["commands"]:
            found += self._command(command)
        if verb is not None:
            for warning in document["warnings"]:
                if warning["code"] not in verb.doc["warnings"]:
                    found.append(f"{verb.name} does not declare the warning {warning['code']}")
        if document["ok"]:
            found += self._data(document["data"], meta["data_hash"], verb, special)
        return found

    def _data(self, data: Any, its_hash: str, verb: Verb | None, special: str | None) -> list[str]:
        if special is not None:
            if set(data) != {special} or not isinstance(data[special], str) or not data[special]:
                return [f"data is not {{{special}}}: {str(data)[:200]}"]
            return self.help_findings(data[special], verb and verb.name) if special == "text" else []
        if verb is None or (verb.name, its_hash) in self.good:
            return []
        found = _misfits(self.data[verb.name], data)
        if not found:
            self.good.add((verb.name, its_hash))
        return found

    def help_findings(self, text: str, name: str | None) -> list[str]:
        """The help of a verb names its flags and arguments, that of the tool its verbs."""
        verb = self.contract.verbs.get(name or "")
        wanted = {*verb.spellings, *(arg["name"] for arg in verb.args)} if verb else set(self.contract.verbs)
        missing = sorted(word for word in wanted if not re.search(rf"(?<![\w-]){word}(?![\w-])", text))
        return [f"the help does not name {', '.join(missing)}"] if missing else []

    def _command(self, command: str) -> list[str]:
        """A next command calls a verb that there is, with flags that it has, or a program of the system."""
        words = before_dashes(shlex.split(command))
        if words[0] != self.contract.tool and _is_there(words[0]):
            return []
        verb = next((self.contract.verbs[word] for word in words if word in self.contract.verbs), None)
        if words[0] != self.contract.tool or verb is None:
            return [f"the next command is none of the tool: {command}"]
        flags = {word.partition("=")[0] for word in words if word.startswith("--")}
        return [f"the next command has unknown flags: {command}"] if flags - verb.spellings else []

    def line_findings(self, line: Any, verb: Verb) -> list[str]:
        """A line of a stream fits one of the schemas that the verb names for it."""
        names = [name for name in verb.doc["frames"]["schema_refs"] if name in self.lines]
        if any(self.lines[name].is_valid(line) for name in names):
            return []
        return [f"a line of the stream fits none of {names}: {str(line)[:200]}"]


def _is_there(word: str) -> bool:
    """Whether a shell knows a command."""
    return (
        subprocess.run(["sh", "-c", 'command -v "$1"', "sh", word], stdout=subprocess.DEVNULL).returncode == 0
    )


def _misfits(validator: Draft202012Validator, value: Any) -> list[str]:
    found = sorted(validator.iter_errors(value), key=lambda error: error.json_path)
    return [f"{error.json_path}: {error.message[:300]}" for error in found[:3]]
