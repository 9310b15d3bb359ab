"""The reference pages of the documentation, in Markdown, made from the capabilities document alone."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Json = dict[str, Any]

NOTE = "<!-- Made by scripts/generate.py; change the code instead. -->\n"


def pages(told: "Json") -> "dict[str, str]":
    """{file name: text} of every reference page. `told` is the capabilities document."""
    made = {
        "verbs.md": _verbs(told),
        "errors.md": _errors(told),
        "states.md": _states(told),
        "limits.md": _limits(told),
        "environment.md": _environment(told),
    }
    return {name: f"{NOTE}\n{text.rstrip()}\n" for name, text in made.items()}


def cell(value: object) -> str:
    """A value as the text of a table's cell."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(cell, value))
    return str(value).replace("|", "\\|").replace("\n", " ")


def code(text: object) -> str:
    return f"`{text}`"


def table(head: "tuple[str, ...]", rows: "list[tuple[object, ...]]") -> str:
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |"]
    lines += ["| " + " | ".join(cell(value) for value in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _bounds(facts: "Json") -> str:
    low, high = facts["minimum"], facts["maximum"]
    if low is None and high is None:
        return ""
    unit = f" {facts['unit']}" if facts.get("unit") else ""
    start = f"above {low}" if facts.get("exclusive_minimum") else f"{low}"
    return f"{start} to {high}{unit}" + (" long" if facts.get("bounds") else "")


def _verbs(told: "Json") -> str:
    parts = ["# Verbs", ""]
    parts += [f"- [{name}](#{name}): {verb['summary']}" for name, verb in told["verbs"].items()]
    for name, verb in told["verbs"].items():
        parts += ["", f"## {name}", "", f"{verb['summary'][:1].upper()}{verb['summary'][1:]}."]
        if verb["description"]:
            parts += ["", verb["description"]]
        parts += ["", *_usage(verb)]
    return "\n".join(parts)


def _usage(verb: "Json") -> "list[str]":
    parts: "list[str]" = []
    if verb["args"]:
        rows: "list[tuple[object, ...]]" = [
            (code(arg["name"]), arg["description"], code(arg["grammar"]), arg["nargs"])
            for arg in verb["args"]
        ]
        parts += [table(("argument", "meaning", "grammar", "how many"), rows)]
    rows = [
        (
            ", ".join(map(code, [*flag["aliases"], flag["name"]])),
            flag["description"] + ("; may be repeated" if flag["repeatable"] else ""),
            " or ".join(flag["choices"]) if flag["choices"] else flag["type"],
            "required" if flag["required"] else _default(flag),
            _bounds(flag) + (", or none" if flag.get("accepts_none") else ""),
        )
        for flag in verb["flags"]
    ]
    parts += [table(("flag", "meaning", "value", "default", "limits"), rows)]
    facts = [f"- not together: {code(a)} and {code(b)}" for a, b in verb["mutually_exclusive"]]
    facts += [f"- {code(a)} needs {' or '.join(map(code, others))}" for a, others in verb["needs"].items()]
    if verb["one_of"]:
        facts.append(f"- one of {', '.join(map(code, verb['one_of']))} is needed")
    if verb.get("safety"):
        facts.append(f"- safety: {verb['safety']}")
    if verb["stdin"]:
        facts.append(f"- standard input: {verb['stdin']}")
    facts += [
        f"- exit status: {', '.join(map(str, verb['exit_codes']))}",
        f"- errors: {', '.join(verb['errors'])}",
        *([f"- warnings: {', '.join(verb['warnings'])}"] if verb["warnings"] else []),
        f"- changes something: {cell(verb['mutates'])}",
        f"- the same call again changes nothing more: {cell(verb['idempotent'])}",
        f"- schema of the answer: {code(verb['schema_ref'])}; data: {code(verb['data_schema'])}",
    ]
    parts += [*facts, "", "```sh"]
    parts += [f"{command}  # {meaning}" for command, meaning in verb["examples"]]
    return [*parts, "```"]


def _default(flag: "Json") -> object:
    """What is used where it is not given; a switch is off, and nothing is no default."""
    return flag["default"] if flag["value_required"] and flag["default"] != [] else None


def _errors(told: "Json") -> str:
    exits: "list[tuple[object, ...]]" = [
        (status, facts["meaning"], facts["retryable"], facts.get("note"))
        for status, facts in told["exit_codes"].items()
    ]
    codes = told["code_registry"]
    parts = ["# Exit statuses and codes", "", "A code alone decides the exit status.", ""]
    parts += [table(("exit", "meaning", "worth another try", "note"), exits)]
    for title, place in (("Errors", "errors"), ("Warnings", "warnings")):
        rows: "list[tuple[object, ...]]" = [
            (code(name), facts.get("exit_code"), facts["summary"], *_example(facts))
            for name, facts in codes.items()
            if place in facts["appears_in"]
        ]
        parts += [f"## {title}", "", table(("code", "exit", "meaning", "for example", "when"), rows)]
    return "\n".join(parts)


def _example(facts: "Json") -> "tuple[object, object]":
    return (code(facts["example"]) if "example" in facts else None), facts.get("situation")


def _states(told: "Json") -> str:
    rules = told["execution"]["retry_model"]
    parts = ["# States, events and reasons", ""]
    follows: "list[tuple[object, ...]]" = [
        (code(state), ", ".join(map(code, after))) for state, after in told["job_transitions"].items()
    ]
    parts += [table(("a job that is", "may become"), follows)]
    for title, key in (
        ("Jobs", "job_states"),
        ("Attempts", "attempt_states"),
        ("Events", "events"),
        ("Failure reasons", "failure_reasons"),
    ):
        parts += [f"## {title}", "", ", ".join(map(code, told[key])), ""]
    parts += ["## Counting", ""]
    parts += [f"- {name}: {text}" for name, text in rules.items() if isinstance(text, str)]
    for name in ("max_retries", "max_crashes"):
        parts.append(f"- {name}: {'; '.join(_budget(rules[name]))}")
    for title, facts in (
        ("The command line", told["parsing"]),
        ("Scheduling", told["scheduling"]),
        ("The tree of a command", told["execution"]["tree"]),
        ("Recovery", told["execution"]["recovery"]),
    ):
        parts += ["", f"## {title}", "", *_facts(facts)]
    return "\n".join(parts)


def _budget(facts: "Json") -> "list[str]":
    return [facts["meaning"], f"default {facts['default']}", f"0: {facts['zero']}", f"1: {facts['one']}"]


def _facts(facts: "Json", name: str = "") -> "list[str]":
    lines: "list[str]" = []
    for key, value in facts.items():
        label = f"{name}{key}".replace("_", " ")
        if isinstance(value, dict):
            lines += _facts(value, f"{label}, ")
        elif key != "finite_numeric_inputs":
            lines.append(f"- {label}: {cell(value) or 'none'}")
    return lines


def _limits(told: "Json") -> str:
    rows: "list[tuple[object, ...]]" = [
        (code(name), facts["summary"], facts["type"], _bounds(facts), facts.get("charset"))
        for name, facts in told["limits"].items()
    ]
    return "# Limits\n\n" + table(("name", "of", "type", "from and to", "characters"), rows)


def _environment(told: "Json") -> str:
    read: "list[tuple[object, ...]]" = [
        (
            code(name),
            facts["description"],
            facts["grammar"],
            facts["shadowed_by"] and code(facts["shadowed_by"]),
        )
        for name, facts in told["env_vars"].items()
    ]
    given: "list[tuple[object, ...]]" = [
        (code(name), text) for name, text in told["env"].items() if name not in told["env_vars"]
    ]
    file = told["config"]
    keys: "list[tuple[object, ...]]" = [
        (code(key["name"]), key["type"], key["default"]) for key in file["keys"]
    ]
    parts = ["# Environment and config file", "", "## Variables that spoolctl reads", ""]
    parts += [table(("variable", "meaning", "value", "overruled by"), read)]
    parts += ["## Variables that a job is given", "", table(("variable", "meaning"), given)]
    parts += [
        f"## {code(file['path'])}",
        "",
        f"A setting is taken from: {', '.join(file['precedence'])}.",
        "",
    ]
    parts += [table(("key", "type", "default"), keys)]
    return "\n".join(parts)
