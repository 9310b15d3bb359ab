"""The samples of a run, and how they are shown: a line of a table, or a line of JSON, a metric and tool.

The value is the median of the samples, or the worst where the metric says so; the spread is their middle
half.
"""

import json
import statistics
import sys

from .bars import BY_NAME, METRICS


def quantile(ordered, part):
    """A quantile of sorted numbers, between two of them by proportion."""
    place = part * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def short(number):
    """A number in few characters."""
    if number is None:
        return "-"
    size = abs(number)
    if size >= 100 or number == int(number):
        return f"{number:.0f}"
    return f"{number:.1f}" if size >= 20 else f"{number:.2f}" if size >= 0.1 else f"{number:.3f}"


class Board:
    def __init__(self, as_json, wanted, several):
        self.as_json, self.wanted, self.several = as_json, wanted, several
        self.samples, self.facts = {}, {}
        self.values = {}

    def note(self, name, tool, value):
        """One sample of a metric."""
        self.samples.setdefault((BY_NAME[name].name, tool.name), []).append(value)

    def fact(self, name, tool, **facts):
        """What else is worth knowing of a metric: shown in its JSON, and below its line."""
        self.facts.setdefault((BY_NAME[name].name, tool.name), {}).update(facts)

    def machine(self, facts):
        if self.as_json:
            self.say(json.dumps({"machine": facts}))
            return
        for name, value in facts.items():
            self.say(f"{name:<24} {short(value) if isinstance(value, float) else value}")
        self.say("")
        self.say(f"{'metric':<20} {'what':<51} {'value':>9} {'unit':<6} {'bar':>9} {'middle half':>15}  met")

    def section(self, name, tools):
        """Show what a section has measured."""
        for metric in METRICS:
            if metric.section == name and metric.name in self.wanted:
                for tool in tools:
                    samples = self.samples.get((metric.name, tool.name))
                    if samples:
                        self._line(metric, tool.name, sorted(samples))
                if self.several:
                    self._compare(metric, tools)

    def failed(self, name, why):
        if self.as_json:
            self.say(json.dumps({"section": name, "failed": why}))
        else:
            self.say(f"{name:<20} not measured: {why}")

    def _line(self, metric, tool, ordered):
        value = ordered[-1] if metric.figure == "worst" else statistics.median(ordered)
        self.values[metric.name, tool] = value
        low, high = quantile(ordered, 0.25), quantile(ordered, 0.75)
        facts = self.facts.get((metric.name, tool), {})
        met = metric.met(value)
        if self.as_json:
            row = {
                "metric": metric.name, "tool": tool, "what": metric.what, "value": value, "unit": metric.unit,
                "sign": metric.sign, "bar": metric.bar, "spread": [low, high], "samples": len(ordered),
                "met": met, "facts": facts,
            }  # fmt: skip
            self.say(json.dumps(row))
            return
        bar = "-" if metric.bar is None else f"{metric.sign} {short(metric.bar)}"
        word = {None: "", True: "yes", False: "NO"}[met]
        name = metric.name if tool == "ours" else "  the other"
        self.say(
            f"{name:<20} {metric.what:<51} {short(value):>9} {metric.unit:<6} {bar:>9}"
            f" {short(low) + ' - ' + short(high):>15}  {word}".rstrip()
        )
        for label, fact in facts.items():
            shown = short(fact) if isinstance(fact, float) else fact
            self.say(f"{'':<20} {label.replace('_', ' ')}: {shown}")

    def _compare(self, metric, tools):
        mine, other = (self.values.get((metric.name, tool.name)) for tool in tools)
        if mine is None or other is None:
            return
        ratio = mine / other if other else None
        if self.as_json:
            self.say(json.dumps({"metric": metric.name, "ours_by_the_other": ratio}))
        else:
            self.say(f"{'  ours / the other':<20} {'':<51} {short(ratio):>9}")

    def say(self, line):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
