"""An executable that is right but for one thing: python broken_tool.py FAULT [WORD...]

Each fault takes what the real one answered and spoils it. A tester of the contract has to notice.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time


class Told:
    """What the real executable was asked and answered."""

    def __init__(self, words: list[str]) -> None:
        self.words = words
        self.ask()

    def ask(self) -> None:
        done = subprocess.run([sys.executable, "-m", "spoolctl", *self.words], capture_output=True)
        self.exit, self.out, self.err = done.returncode, done.stdout, done.stderr

    def change(self, spoil) -> None:
        """Spoil the document, where there is one."""
        if self.out.startswith(b"{"):
            first, _, rest = self.out.partition(b"\n")
            document = json.loads(first)
            spoil(document)
            self.out = json.dumps(document).encode() + b"\n" + rest


def rehashed(spoil):
    """`spoil` for the data alone, with the hash made right again: only the schema can tell."""

    def change(document):
        import hashlib

        if isinstance(document.get("data"), dict):
            spoil(document["data"])
            canonical = json.dumps(document["data"], sort_keys=True, separators=(",", ":"))
            document["meta"]["data_hash"] = "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()

    return change


def of_error(spoil):
    def change(document):
        for error in document.get("errors", ()):
            spoil(error)

    return change


def exit_is_one_more(told):
    told.exit += 1


def documents_come_twice(told):
    told.out *= 2


def code_is_another(told):
    told.change(of_error(lambda error: error.update(code="CONFLICT", exit_code=5)))
    told.err = re.sub(rb": [A-Z_]+: ", b": CONFLICT: ", told.err)
    told.exit = 5 if told.err else told.exit


def a_key_is_dropped(told):
    told.change(rehashed(lambda data: data.pop(next(iter(data)))))


def a_key_is_added(told):
    told.change(rehashed(lambda data: data.update(surprise=1)))


def hash_is_of_something_else(told):
    told.change(lambda document: document["meta"].update(data_hash="sha256:" + "0" * 64))


def ok_in_spite_of_an_error(told):
    told.change(lambda document: document.update(ok=True))


def warning_is_not_declared(told):
    told.change(lambda d: d["warnings"].append({"code": "KILL_ASYNC", "message": "x"}))


def hint_is_missing(told):
    told.change(of_error(lambda error: error.update(did_you_mean=None)))


def detail_names_another_flag(told):
    told.change(of_error(lambda error: error["detail"].update(flag="--other")))


def a_traceback_is_shown(told):
    told.err += b"Traceback (most recent call last):\n  File ...\n"


def stderr_chatters(told):
    told.err = b"note: all is well\n" + told.err


def stderr_is_never_silent(told):
    os.environ.pop("SPOOLCTL_STDERR", None)
    told.ask()


def mirror_is_missing(told):
    told.err = b""


def errors_of_text_mode_are_on_stdout(told):
    told.out, told.err = told.err, b""


def stdout_is_not_ascii(told):
    told.out = told.out.replace(b'"ok"', b'"\xc3\xb6"', 1)


def unknown_flags_are_accepted(told):
    wrong = re.search(r"(?:has no|unknown) flag (\S+)", told.err.decode())
    while wrong and any(word.partition("=")[0] == wrong[1] for word in told.words):
        told.words = [word for word in told.words if word.partition("=")[0] != wrong[1]]
        told.ask()
        wrong = re.search(r"(?:has no|unknown) flag (\S+)", told.err.decode())


def nothing_is_refused(told):
    told.exit, told.out, told.err = 0, b"", b""


def a_line_of_the_stream_is_spoiled(told):
    told.out = told.out.replace(b"id", b"di").replace(b"control", b"lortnoc")


def help_is_empty(told):
    told.out = b""


def version_is_another(told):
    told.out = told.out.replace(b"0.", b"9.")


def something_is_made(told):
    with open("litter", "w"):
        pass


def someone_is_left_behind(told):
    subprocess.Popen(["sleep", "60"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def it_hangs(told):
    time.sleep(600)


def nothing(told):
    """The control: an honest messenger."""


FAULTS = {
    name: found
    for name, found in list(globals().items())
    if callable(found) and found.__module__ == __name__ and found not in (Told, rehashed, of_error)
}


if __name__ == "__main__":
    answer = Told(sys.argv[2:])
    FAULTS[sys.argv[1]](answer)
    sys.stdout.buffer.write(answer.out)
    sys.stdout.flush()
    sys.stderr.buffer.write(answer.err)
    sys.stderr.flush()
    sys.exit(answer.exit)
