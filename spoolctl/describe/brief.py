"""The tool on one page, for an agent that has never seen it: within BUDGET tokens by `tokens.estimate`."""

from .. import CONTRACT_VERSION, __version__
from ..contract.spec import Verb
from ..errors import EXIT_UNSUCCESSFUL, EXITS

BUDGET = 700

_HEAD = """\
spoolctl {version} (contract {contract}): a crash-safe job queue for commands in one SQLite file. No daemon: \
any number of `work` processes share it; what a killed one ran comes back by itself.
With --json every call prints one document: ok, data, meta, warnings, commands (what fits next), errors (at \
most one: code, message, remediation, a line to run).
Exit: {exits}. Repeat unchanged only at {again}; {unsuccessful} comes with ok true.
"""

_DAY = """\
A day with it:
  spoolctl doctor --json
  spoolctl add --json --key K --tag run=R -- CMD ARGS   (on disk when it answers; no shell: -c 'a | b')
  spoolctl add --json --from FILE --tag run=R   (a job a line)
  spoolctl work --drain -j 4   (runs what is there, then leaves)
  spoolctl wait --json --tag run=R --timeout 10m
  spoolctl feedback --json ID   (the verdict, the end of the output, what to run next)
Jobs run at least once, never twice at the same time; write them so that a second run does no harm. A key \
names one active job: the same add twice is one job. An ID may be a number, key:K, or 3-9.
More: spoolctl robot-docs guide; spoolctl VERB --help; spoolctl capabilities --json --verb V
"""


def text(specs: "dict[str, Verb]") -> str:
    exits = "; ".join(f"{status} {meaning}" for status, (meaning, _) in EXITS.items())
    again = ", ".join(str(status) for status, (_, retryable) in EXITS.items() if retryable)
    head = _HEAD.format(
        version=__version__,
        contract=CONTRACT_VERSION,
        exits=exits,
        again=again,
        unsuccessful=EXIT_UNSUCCESSFUL,
    )
    verbs = "".join(f"  {name}: {spec.summary}\n" for name, spec in specs.items())
    return f"{head}Verbs:\n{verbs}{_DAY}"
