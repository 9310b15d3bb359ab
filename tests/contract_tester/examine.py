"""One examination: ask, seed, derive, run, judge; what came of it as a report."""

from __future__ import annotations

from . import document
from .calls import CATEGORIES, Call, sample, tally
from .derive import calls
from .judge import Judge
from .runner import Runner


class Report:
    def __init__(self, derived: list[Call], run: list[Call]) -> None:
        self.derived = derived
        self.run = run
        self.of_calls: list[tuple[Call, str]] = []
        self.of_document: list[str] = []

    def lines(self) -> list[str]:
        """Each finding, that of a call with the command that shows it."""
        found = [
            f"{call.category}: {finding}\n    {call.pasted('spoolctl')}" for call, finding in self.of_calls
        ]
        return found + [f"document: {finding}" for finding in self.of_document]

    def table(self) -> str:
        derived, run = tally(self.derived), tally(self.run)
        bad = tally([call for call, _ in self.of_calls])
        rows = [f"{'category':<12}{'derived':>9}{'run':>9}{'findings':>10}"]
        rows += [f"{name:<12}{derived[name]:>9}{run[name]:>9}{bad[name]:>10}" for name in CATEGORIES]
        return "\n".join(
            [*rows, f"{'all':<12}{len(self.derived):>9}{len(self.run):>9}{len(self.of_calls):>10}"]
        )


def examine(command: list[str], env: dict[str, str], count: int | None = None, seed: int = 1) -> Report:
    """Run all calls that can be derived, or a sample of `count`."""
    with Runner(command, env) as runner:
        contract = runner.contract()
        derived = calls(contract)
        runner.seed()
        report = Report(derived, derived if count is None else sample(derived, count, seed))
        judge = Judge(contract)
        for call, findings in runner.all(report.run, judge.findings):
            report.of_calls += [(call, finding) for finding in findings]
    report.of_document = document.findings(contract, derived)
    report.of_document += [f"no call of {name} was answered with ok" for name in judge.silent_verbs()]
    return report
