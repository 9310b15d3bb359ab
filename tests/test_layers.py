"""The rules of the package's structure, read from its syntax trees; each rule is shown to be able to fail.

The tables below are the allow-list. A new module needs a line in LAYERS; an exception needs a reason.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "spoolctl"

# Imports point down only. A name covers the module and everything below it.
LAYERS = {
    "__main__": 6, "cli": 6, "context": 6, "argv": 6, "help": 6, "emit": 6, "registry": 6,
    "verbs": 5, "api": 5,
    "describe": 4, "health": 4, "work": 4,
    "store": 3, "watch": 3,
    "config": 2, "paths": 2,
    "contract": 1, "terminal": 1,
    "errors": 0, "clock": 0, "jsontext": 0, "hooks": 0,
}  # fmt: skip

# Imports between two names of one layer; modules below one name may import each other.
SIDEWAYS = {
    ("__main__", "cli"), ("__main__", "emit"),
    ("cli", "argv"), ("cli", "context"), ("cli", "emit"), ("cli", "help"), ("cli", "registry"),
    ("context", "emit"), ("context", "registry"),
    ("config", "paths"),
    ("health", "work"),
    ("store", "watch"),
}  # fmt: skip

# Loaded only where a call needs them: inside a function.
LAZY = {"verbs": ("store", "work", "health", "describe")}

ENVIRONMENT_READERS = {
    "__main__": "puts it into ctx",
    "api": "is called by programs that have no ctx",
    "work.spawn": "makes the environment of a command",
}

PROCESS_OWNERS = {
    "work": "runs the jobs",
    "health.bound": "interrupts a question to the database from a thread, when its time is up",
    "store.db": "closes connections around a fork",
    "store.gate": "bounds the wait for the gate with an interval timer",
    "__main__": "dies by the signal that ended a waiting call",
    "cli": "dies by the signal that ended a waiting call",
    "verbs._following": "a follower ends with status 0 on INT and TERM",
    "verbs.output": "a follower ends with status 0 on INT and TERM",
}

MODULE_LINES = 400
FUNCTION_LINES = 60

CLOCKS = {
    *(f"time.{name}{unit}" for name in ("time", "monotonic", "perf_counter", "process_time", "thread_time")
      for unit in ("", "_ns")),
    "time.sleep", "time.clock_gettime", "time.clock_gettime_ns",
    "datetime.datetime.now", "datetime.datetime.utcnow", "datetime.datetime.today", "datetime.date.today",
}  # fmt: skip
# These read the clock when they get no time to convert; strftime's comes second.
CLOCKS_WITHOUT_ARGUMENT = {"time.localtime": 1, "time.gmtime": 1, "time.ctime": 1, "time.asctime": 1,
                           "time.strftime": 2}  # fmt: skip

ENVIRONMENT = {
    "os.environ",
    "os.environb",
    "os.getenv",
    "os.getenvb",
    "os.putenv",
    "os.unsetenv",
    "posix.environ",
}

PROCESS_MODULES = {"signal", "threading", "_thread", "subprocess", "_posixsubprocess", "multiprocessing",
                   "concurrent", "asyncio"}  # fmt: skip
PROCESS_CALLS = re.compile(
    r"os\.(fork|forkpty|kill|killpg|system|popen|posix_spawnp?|exec[lv]p?e?|spawn[lv]p?e?)"
)

SQL = re.compile(
    r"""\bSELECT\b.*\bFROM\b | \bINSERT\s+(OR\s+\w+\s+)?INTO\b | \bREPLACE\s+INTO\b
      | \bUPDATE\s+(OR\s+\w+\s+)?\S+\s+SET\b | \bDELETE\s+FROM\b
      | \b(CREATE|DROP|ALTER)\s+((TEMP|TEMPORARY|UNIQUE|VIRTUAL)\s+)?(TABLE|INDEX|TRIGGER|VIEW)\b
      | \bPRAGMA\s+\w | \bBEGIN\s+(IMMEDIATE|EXCLUSIVE|DEFERRED)\b
      | ^\s*(select\s.*\sfrom\s|insert\s+into\s|delete\s+from\s|pragma\s+\w+|begin\s+immediate) """,
    re.VERBOSE | re.DOTALL,
)
SQL_CLOCK = re.compile(r"\bCURRENT_(TIMESTAMP|TIME|DATE)\b|'now'|\bunixepoch\(\s*\)", re.IGNORECASE)


# --- reading ----------------------------------------------------------------------------------------------


class Module:
    """One file: its dotted name below the package ("" for the package itself), its tree and its imports."""

    def __init__(self, path: Path, package: Path) -> None:
        parts = list(path.relative_to(package).with_suffix("").parts)
        self.is_package = parts[-1] == "__init__"
        self.name = ".".join(parts[:-1] if self.is_package else parts)
        self.where = f"{package.name}/{path.relative_to(package)}"
        self.source = path.read_text("utf-8")
        self.tree = ast.parse(self.source, str(path))
        self.nodes = list(run_time_nodes(self.tree))
        self.aliases = self._aliases()

    def _aliases(self) -> dict[str, str]:
        """Local name -> dotted name, for `import time as t` and `from datetime import datetime`."""
        found = {}
        for node, _ in self.nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    if alias.asname:
                        found[alias.asname] = alias.name
                    else:
                        top = alias.name.partition(".")[0]
                        found[top] = top
            elif isinstance(node, ast.ImportFrom) and not node.level:
                for alias in node.names:
                    found[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        return found

    def dotted(self, node: ast.AST) -> str:
        """The full name that an expression such as `t.monotonic` refers to, "" for anything else."""
        if isinstance(node, ast.Name):
            return self.aliases.get(node.id, "")
        if isinstance(node, ast.Attribute):
            base = self.dotted(node.value)
            return f"{base}.{node.attr}" if base else ""
        return ""

    def foreign_names(self):
        """(line, dotted name) of every use of something imported from outside, imports included."""
        for node, _ in self.nodes:
            if isinstance(node, ast.Import):
                yield from ((node.lineno, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and not node.level:
                yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)
            elif isinstance(node, (ast.Attribute, ast.Name)) and self.dotted(node):
                yield node.lineno, self.dotted(node)

    def calls(self):
        return [node for node, _ in self.nodes if isinstance(node, ast.Call)]

    def strings(self):
        """(line, text) of every string that is data; a value put into one stands as `?`."""
        inner = set()
        for node, _ in self.nodes:
            if id(node) in inner:
                continue
            if isinstance(node, ast.Expr):
                inner.add(id(node.value))  # a docstring, or text that goes nowhere
            elif (text := literal(node)) is not None:
                inner.update(map(id, pieces(node)))
                yield node.lineno, text


def literal(node: ast.AST) -> str | None:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(literal(part) or "?" for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = literal(node.left), literal(node.right)
        return None if left is None and right is None else (left or "?") + (right or "?")
    return None


def pieces(node: ast.AST):
    """The nodes whose text literal() has joined; an expression inside a string stays a node of its own."""
    if isinstance(node, ast.JoinedStr):
        yield from (part for part in node.values if isinstance(part, ast.Constant))
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        for part in (node.left, node.right):
            if literal(part) is not None:
                yield part
                yield from pieces(part)


def run_time_nodes(tree: ast.AST, in_function: bool = False):
    """(node, whether it is inside a function), outer before inner, without what is there for types only."""
    yield tree, in_function
    if isinstance(tree, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        in_function = True
    for child in ast.iter_child_nodes(tree):
        if isinstance(tree, ast.If) and is_type_checking(tree.test) and child in tree.body:
            continue
        yield from run_time_nodes(child, in_function)


def is_type_checking(test: ast.AST) -> bool:
    return getattr(test, "id", getattr(test, "attr", "")) == "TYPE_CHECKING"


class Tree:
    def __init__(self, package: Path) -> None:
        self.package = package.name
        self.modules = {m.name: m for m in (Module(path, package) for path in sorted(package.rglob("*.py")))}
        self.package_names = {
            target.id
            for statement in self.modules[""].tree.body
            if isinstance(statement, ast.Assign)
            for target in statement.targets
            if isinstance(target, ast.Name)
        }

    def edges(self, module: Module):
        """(line, name of an own module, whether the import waits for a call) in the order of the file."""
        for node, in_function in module.nodes:
            for target in self._targets(module, node):
                yield node.lineno, target, in_function

    def _targets(self, module: Module, node: ast.AST):
        if isinstance(node, ast.Import):
            yield from (self._own(alias.name) for alias in node.names if self._is_own(alias.name))
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                here = module.name.split(".") if module.name else []
                up = node.level - (1 if module.is_package else 0)
                base = ".".join([self.package, *here[: len(here) - up], *filter(None, [node.module])])
            else:
                base = node.module or ""
            if self._is_own(base):
                yield from {self._own(f"{base}.{alias.name}"): None for alias in node.names}
        elif isinstance(node, ast.Call) and node.args:
            called = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            text = literal(node.args[0])
            if called in ("__import__", "import_module") and text and self._is_own(text):
                yield self._own(text)

    def _is_own(self, dotted: str) -> bool:
        return dotted == self.package or dotted.startswith(self.package + ".")

    def _own(self, dotted: str) -> str:
        """The module that a dotted name lies in: spoolctl.store.db.open -> store.db."""
        parts = dotted.split(".")[1:]
        while parts and ".".join(parts) not in self.modules:
            if len(parts) == 1:
                # A name that the package itself defines, or a module that is not there.
                return "" if parts[0] in self.package_names else parts[0]
            parts.pop()
        return ".".join(parts)


def top(name: str) -> str:
    return name.partition(".")[0]


def belongs(name: str, table) -> bool:
    return any(name == entry or name.startswith(entry + ".") for entry in table)


# --- rules: each yields one line a problem ----------------------------------------------------------------


def imports_point_down(tree: Tree):
    for module in tree.modules.values():
        source = top(module.name)
        if source and source not in LAYERS:
            yield f"{module.where}: {module.name} has no layer; add it to LAYERS and to the documentation"
            continue
        for line, target, in_function in tree.edges(module):
            edge = f"{module.where}:{line}: {module.name or tree.package} -> {target or tree.package}"
            goal = top(target)
            if not goal or goal == source:
                continue
            if goal not in LAYERS:
                yield f"{edge}: {target} has no layer"
            elif not source:
                if goal != "api" or not in_function:
                    yield f"{edge}: the package itself imports only api, when one of its names is asked for"
            elif LAYERS[goal] > LAYERS[source]:
                levels = f"{source} is layer {LAYERS[source]}, {goal} is layer {LAYERS[goal]}"
                hint = "; specs come through ctx.specs" if goal == "registry" else ""
                yield f"{edge}: imports point down only ({levels}){hint}"
            elif LAYERS[goal] == LAYERS[source] and (source, goal) not in SIDEWAYS:
                yield f"{edge}: both are layer {LAYERS[goal]}, and SIDEWAYS does not list the pair"
            elif goal in LAZY.get(source, ()) and not in_function:
                yield f"{edge}: {source} imports {goal} inside a function only, so that start-up stays short"


def imports_form_no_cycle(tree: Tree):
    named = {name: module for name, module in tree.modules.items() if name}
    graph = {
        name: sorted({goal for _, goal, _ in tree.edges(module) if goal in named and goal != name})
        for name, module in named.items()
    }
    finished: set[str] = set()

    def visit(name: str, path: list[str]):
        if name in path:
            yield f"{' -> '.join([*path[path.index(name) :], name])}: imports form no cycle"
        elif name not in finished:
            for goal in graph[name]:
                yield from visit(goal, [*path, name])
            finished.add(name)

    for name in graph:
        yield from visit(name, [])


def only_store_holds_sql(tree: Tree):
    for module in tree.modules.values():
        if not belongs(module.name, ("store",)):
            for line, text in module.strings():
                if SQL.search(text):
                    place = f"{module.where}:{line}"
                    yield f"{place}: {module.name} holds SQL; it belongs in store: {shown(text)}"


def only_emit_writes_stdout(tree: Tree):
    rule = "only emit writes stdout"
    for module in tree.modules.values():
        if module.name == "emit":
            continue
        for line, name in module.foreign_names():
            if name in ("sys.stdout", "sys.__stdout__"):
                yield f"{module.where}:{line}: {module.name} uses {name}; {rule}"
        for call in module.calls():
            if isinstance(call.func, ast.Name) and call.func.id == "print":
                yield f"{module.where}:{call.lineno}: {module.name} calls print; {rule}"
            elif writes_descriptor(module, call, 1):
                yield f"{module.where}:{call.lineno}: {module.name} writes descriptor 1; {rule}"


def work_reports_through_a_callable(tree: Tree):
    rule = "progress goes through a callable handed to it"
    for module in tree.modules.values():
        if belongs(module.name, ("work",)):
            for line, name in module.foreign_names():
                if name in ("sys.stderr", "sys.__stderr__"):
                    yield f"{module.where}:{line}: {module.name} uses {name}; {rule}"
            for call in module.calls():
                if writes_descriptor(module, call, 2):
                    yield f"{module.where}:{call.lineno}: {module.name} writes descriptor 2; {rule}"


def writes_descriptor(module: Module, call: ast.Call, number: int) -> bool:
    called = getattr(call.func, "id", module.dotted(call.func))
    if called not in ("open", "os.write", "os.writev", "os.fdopen") or not call.args:
        return False
    return isinstance(call.args[0], ast.Constant) and call.args[0].value == number


def only_clock_knows_the_time(tree: Tree):
    for module in tree.modules.values():
        if module.name == "clock":
            continue
        for line, name in sorted(set(module.foreign_names())):
            if name in CLOCKS:
                yield f"{module.where}:{line}: {module.name} uses {name}; only clock does"
        for call in module.calls():
            name = module.dotted(call.func)
            if len(call.args) < CLOCKS_WITHOUT_ARGUMENT.get(name, 0):
                place = f"{module.where}:{call.lineno}"
                yield f"{place}: {module.name} lets {name} read the clock; only clock does"
        for line, text in module.strings():
            if SQL.search(text) and SQL_CLOCK.search(text):
                place = f"{module.where}:{line}"
                yield f"{place}: {module.name} lets SQLite read the clock; pass :now: {shown(text)}"


def only_few_read_the_environment(tree: Tree):
    rule = f"only {', '.join(ENVIRONMENT_READERS)} read the environment"
    for module in tree.modules.values():
        if module.name not in ENVIRONMENT_READERS:
            for line, name in sorted(set(module.foreign_names())):
                if name in ENVIRONMENT:
                    yield f"{module.where}:{line}: {module.name} uses {name}; {rule}"


def only_work_handles_processes(tree: Tree):
    rule = "signals, threads and processes belong to work; PROCESS_OWNERS lists the exceptions"
    for module in tree.modules.values():
        if not belongs(module.name, PROCESS_OWNERS):
            for line, name in sorted(set(module.foreign_names())):
                if top(name) in PROCESS_MODULES or PROCESS_CALLS.fullmatch(name):
                    yield f"{module.where}:{line}: {module.name} uses {name}; {rule}"


def contract_does_no_io(tree: Tree):
    rule = "contract and terminal do no I/O"
    for module in tree.modules.values():
        if belongs(module.name, ("contract", "terminal")):
            for line, name in sorted(set(module.foreign_names())):
                if top(name) in ("sqlite3", "socket"):
                    yield f"{module.where}:{line}: {module.name} uses {name}; {rule}"
            for call in module.calls():
                if "open" in (getattr(call.func, "id", ""), module.dotted(call.func).removeprefix("os.")):
                    yield f"{module.where}:{call.lineno}: {module.name} opens a file; {rule}"


def modules_and_functions_are_short(tree: Tree):
    for module in tree.modules.values():
        lines = module.source.count("\n")
        if lines > MODULE_LINES:
            yield f"{module.where}: {lines} lines; a module has at most {MODULE_LINES}"
        for node in ast.walk(module.tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                length = (node.end_lineno or 0) - node.lineno + 1
                if length > FUNCTION_LINES:
                    place = f"{module.where}:{node.lineno}"
                    yield f"{place}: {node.name} has {length} lines; a function has at most {FUNCTION_LINES}"


def shown(text: str) -> str:
    return repr(" ".join(text.split())[:60])


RULES = [
    imports_point_down, imports_form_no_cycle, only_store_holds_sql, only_emit_writes_stdout,
    work_reports_through_a_callable, only_clock_knows_the_time, only_few_read_the_environment,
    only_work_handles_processes, contract_does_no_io, modules_and_functions_are_short,
]  # fmt: skip


# --- the package ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def package() -> Tree:
    tree = Tree(PACKAGE)
    assert "__main__" in tree.modules, f"no package at {PACKAGE}"
    return tree


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_package_keeps_the_rule(rule, package):
    problems = list(rule(package))
    assert not problems, "\n".join(["", *problems])


# --- the rules themselves ---------------------------------------------------------------------------------


def make_tree(directory: Path, files: dict[str, str]) -> Tree:
    package = directory / "spoolctl"
    for name, source in {"__init__.py": "", **files}.items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, "utf-8")
    return Tree(package)


BROKEN = [
    (imports_point_down, "store/db.py", "from ..verbs import add", "store.db -> verbs: imports point down"),
    (imports_point_down, "store/db.py", "import spoolctl.work.loop", "store.db -> work"),
    (imports_point_down, "store/db.py", "from spoolctl.cli import main", "store is layer 3, cli is layer 6"),
    (imports_point_down, "errors.py", "def f():\n    from . import paths", "errors.py:2: errors -> paths"),
    (imports_point_down, "work/a/b.py", "from ...api import Queue", "work.a.b -> api"),
    (imports_point_down, "verbs/add.py", "def run(a, c):\n    from .. import registry", "ctx.specs"),
    (imports_point_down, "describe/brief.py", "__import__('spoolctl.registry')", "brief -> registry"),
    (imports_point_down, "paths.py", "importlib.import_module(f'spoolctl.store.{x}')", "paths -> store"),
    (imports_point_down, "clock.py", "from .errors import E", "both are layer 0"),
    (imports_point_down, "verbs/add.py", "from ..store import jobs", "inside a function only"),
    (imports_point_down, "new.py", "", "new has no layer"),
    (imports_point_down, "cli.py", "from .newer import f", "cli -> newer: newer has no layer"),
    (imports_point_down, "__init__.py", "from .api import Queue", "when one of its names is asked for"),
    (imports_point_down, "__init__.py", "def f():\n    from .cli import main", "imports only api"),
    (only_store_holds_sql, "verbs/list.py", "Q = 'SELECT id, key FROM jobs'", "verbs.list holds SQL"),
    (only_store_holds_sql, "api.py", "def f(c):\n    return f'SELECT {c} FROM jobs'", "api.py:2"),
    (only_store_holds_sql, "api.py", "def f(c):\n    return 'SELECT ' + c + ' FROM jobs'", "api.py:2"),
    (only_store_holds_sql, "api.py", "def f(d):\n    return f'{d.run(\"PRAGMA user_version\")}'", "api.py:2"),
    (only_store_holds_sql, "api.py", "Q = '\\n  INSERT OR IGNORE INTO jobs VALUES (1)'", "api holds SQL"),
    (only_store_holds_sql, "work/loop.py", "Q = 'UPDATE jobs SET state = 1'", "work.loop holds SQL"),
    (only_store_holds_sql, "work/loop.py", "Q = 'DELETE FROM jobs'", "work.loop holds SQL"),
    (only_store_holds_sql, "paths.py", "Q = 'CREATE TABLE x (y)'", "paths holds SQL"),
    (only_store_holds_sql, "paths.py", "Q = 'CREATE UNIQUE INDEX x ON y (z)'", "paths holds SQL"),
    (only_store_holds_sql, "cli.py", "c.execute('PRAGMA user_version')", "cli holds SQL"),
    (only_store_holds_sql, "cli.py", "c.execute('BEGIN IMMEDIATE')", "cli holds SQL"),
    (only_store_holds_sql, "cli.py", "c.execute('select 1 from jobs')", "cli holds SQL"),
    (only_emit_writes_stdout, "cli.py", "def f():\n    print(1)", "cli.py:2: cli calls print"),
    (only_emit_writes_stdout, "cli.py", "import sys as s\ns.stdout.write('')", "cli uses sys.stdout"),
    (only_emit_writes_stdout, "cli.py", "from sys import stdout", "cli uses sys.stdout"),
    (only_emit_writes_stdout, "cli.py", "import os\nos.write(1, b'')", "cli writes descriptor 1"),
    (work_reports_through_a_callable, "work/loop.py", "import sys\nsys.stderr.flush()", "handed to it"),
    (work_reports_through_a_callable, "work/loop.py", "import os\nos.write(2, b'')", "descriptor 2"),
    (only_clock_knows_the_time, "api.py", "import time\nnow = time.time()", "api uses time.time; only clock"),
    (only_clock_knows_the_time, "api.py", "from time import monotonic as m", "api uses time.monotonic"),
    (only_clock_knows_the_time, "api.py", "import time\ntime.sleep(1)", "api uses time.sleep"),
    (only_clock_knows_the_time, "api.py", "import time\ntime.localtime()", "lets time.localtime read"),
    (only_clock_knows_the_time, "api.py", "import datetime as d\nd.datetime.now()", "datetime.datetime.now"),
    (only_clock_knows_the_time, "api.py", "from datetime import date\ndate.today()", "datetime.date.today"),
    (only_clock_knows_the_time, "store/db.py", "Q = 'UPDATE jobs SET at = CURRENT_TIMESTAMP'", "pass :now"),
    (only_few_read_the_environment, "paths.py", "import os\nx = os.environ['HOME']", "paths uses os.environ"),
    (only_few_read_the_environment, "work/loop.py", "from os import getenv", "work.loop uses os.getenv"),
    (only_work_handles_processes, "emit.py", "import signal", "emit uses signal"),
    (only_work_handles_processes, "store/jobs.py", "from threading import Lock", "store.jobs uses threading"),
    (only_work_handles_processes, "verbs/stop.py", "import os\nos.kill(1, 9)", "verbs.stop uses os.kill"),
    (only_work_handles_processes, "api.py", "import os\nos.fork()", "api uses os.fork"),
    (contract_does_no_io, "contract/types.py", "import sqlite3", "contract.types uses sqlite3"),
    (contract_does_no_io, "contract/types.py", "def f():\n    open('x')", "contract.types opens a file"),
    (modules_and_functions_are_short, "cli.py", "x = 1\n" * 401, "401 lines"),
    (modules_and_functions_are_short, "cli.py", "def f():\n" + "    x = 1\n" * 60, "f has 61 lines"),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "name", "source", "expected"), BROKEN)
def test_a_broken_rule_is_reported_with_its_place_and_reason(rule, name, source, expected, tmp_path):
    files = dict.fromkeys(["verbs/__init__.py", "work/a/__init__.py", "api.py", "registry.py"], "")
    problems = list(rule(make_tree(tmp_path, {**files, name: source})))
    assert any(expected in problem and f"spoolctl/{name}" in problem for problem in problems), problems


def test_a_cycle_is_reported_as_a_path(tmp_path):
    files = {
        "store/a.py": "from . import b",
        "store/b.py": "def f():\n    from .c import x",
        "store/c.py": "from .a import y",
    }
    assert list(imports_form_no_cycle(make_tree(tmp_path, files))) == [
        "store.a -> store.b -> store.c -> store.a: imports form no cycle"
    ]


def test_what_the_rules_allow_is_not_reported(tmp_path):
    files = {
        "__init__.py": "__version__ = '1'\ndef __getattr__(name):\n    from . import api\n    return api",
        "__main__.py": "import os, signal\nfrom .cli import main\nenviron = os.environb",
        "cli.py": "from . import __version__, emit, registry\nimport signal",
        "emit.py": "import sys\nprint('x')\nsys.stdout.flush()",
        "registry.py": "def load(name):\n    return __import__(f'spoolctl.verbs.{name}')",
        "api.py": "import os\nfrom .store import db\nhome = os.environ",
        "clock.py": "import time\nnow = time.time\nsleep = time.sleep",
        "errors.py": "if TYPE_CHECKING:\n    from .verbs import add\n    import signal",
        "paths.py": "import time\nfrom .contract import types\nzone = time.localtime(0)",
        "contract/__init__.py": "",
        "contract/types.py": '"""Has no SELECT x FROM y."""\n# INSERT INTO\nx = "Select one from the list."',
        "store/__init__.py": "",
        "store/db.py": "import signal\nfrom .. import clock\nQ = 'SELECT id FROM jobs WHERE at < :now'",
        "store/jobs.py": "from . import db",
        "verbs/__init__.py": "",
        "verbs/add.py": "from ..contract import types\ndef run(args, ctx):\n    from ..store import jobs",
        "work/__init__.py": "",
        "work/spawn.py": "import os, subprocess\nfrom ..store import jobs\nbase = os.environ",
    }
    tree = make_tree(tmp_path, files)
    assert [problem for rule in RULES for problem in rule(tree)] == []
