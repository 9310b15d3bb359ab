"""The schema as it is when made new. Invariants are CHECKs; counts are kept by triggers.

Indexes on queued and running rows are partial, because a row changes state twice in its life.
Per lane and state every index ends in the id, so that any flat filter of `list` is a short merge.

A CHECK costs every write, so each is written as what SQLite evaluates fastest: comparisons. A function call
costs several of them, and a list behind IN of more than two is built anew, as a table, for every row.
"""

from ..contract.states import ATTEMPT_STATES, EVENTS, JOB_STATES, KINDS, REASONS, REQUESTS, TERMINAL

VERSION = 1
APPLICATION_ID = 0x53504F4C  # "SPOL": tells our file from a foreign one


def _in(column: str, words: "tuple[str, ...]", null: bool = False) -> str:
    listed = " OR ".join(f"{column} = '{word}'" for word in words)
    return f"({column} IS NULL OR {listed})" if null else f"({listed})"


# A number that has a JSON: infinity has none, and text and bytes are above every number. NULL passes.
FINITE = "{0} > -9e999 AND {0} < 9e999"


def _number(column: str, null: bool = False) -> str:
    """A number kept as it was given, whole or not: a column without affinity."""
    return f"{column}{'' if null else ' NOT NULL'} CHECK ({FINITE.format(column)})"


# The condition of an index. It is no CHECK: queries repeat it word for word, or SQLite takes no such index.
ENDED = f"state IN {TERMINAL!r}"


TABLES = f"""
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

CREATE TABLE jobs (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  kind TEXT NOT NULL CHECK {_in("kind", KINDS)},
  queue TEXT NOT NULL,
  state TEXT NOT NULL CHECK {_in("state", JOB_STATES)},
  priority INTEGER NOT NULL,
  next_run_at REAL NOT NULL,
  argv TEXT,
  payload TEXT,
  cwd CHECK (cwd IS NULL OR typeof(cwd) = 'text' OR typeof(cwd) = 'blob'),
  env TEXT,
  captured_env TEXT,
  {_number("timeout", null=True)},
  max_retries INTEGER NOT NULL CHECK (max_retries >= 0),
  max_crashes INTEGER CHECK (max_crashes >= 0),
  {_number("backoff_base")},
  {_number("backoff_factor")},
  {_number("backoff_max")},
  {_number("backoff_jitter")},
  max_output INTEGER,
  keep_children INTEGER NOT NULL CHECK (keep_children IN (0, 1)),
  key TEXT,
  note TEXT,
  asked TEXT,
  created_at REAL NOT NULL,
  started_at REAL,
  finished_at REAL,
  attempts INTEGER NOT NULL DEFAULT 0 CHECK (attempts >= 0),
  crashes INTEGER NOT NULL DEFAULT 0 CHECK (crashes >= 0 AND crashes <= attempts),
  attempt_no INTEGER NOT NULL DEFAULT 0,
  owner INTEGER,
  request TEXT CHECK {_in("request", REQUESTS, null=True)},
  request_detail TEXT,
  requested_at REAL,
  request_seen_at REAL,
  last_exit_code INTEGER,
  last_signal TEXT,
  last_error TEXT,
  last_failure_reason TEXT CHECK {_in("last_failure_reason", REASONS, null=True)},
  CHECK ((kind = 'command') = (argv IS NOT NULL)),
  CHECK ((kind = 'payload') = (payload IS NOT NULL)),
  CHECK ({_in("state", TERMINAL)} = (finished_at IS NOT NULL)),
  CHECK ((state = 'running') = (owner IS NOT NULL)),
  CHECK (request IS NULL OR state = 'running'),
  CHECK ((request IS NULL) = (requested_at IS NULL))
);

CREATE TABLE attempts (
  job_id INTEGER NOT NULL,
  attempt_no INTEGER NOT NULL CHECK (attempt_no >= 1),
  state TEXT NOT NULL CHECK {_in("state", ATTEMPT_STATES)},
  worker INTEGER NOT NULL,
  worker_label TEXT NOT NULL,
  worker_pid INTEGER,
  boot_id TEXT,
  pid_ns TEXT,
  began REAL,
  token TEXT NOT NULL,
  pid INTEGER,
  pid_start INTEGER,
  session INTEGER,
  started_at REAL NOT NULL,
  finished_at REAL,
  exit_code INTEGER,
  signal TEXT,
  error TEXT,
  failure_reason TEXT CHECK {_in("failure_reason", REASONS, null=True)},
  lease_expires_at REAL,
  lease_boot TEXT,
  lease_deadline REAL,
  ending_since REAL,
  ending_pids TEXT,
  ending_why TEXT,
  PRIMARY KEY (job_id, attempt_no),
  CHECK ((state = 'running') = (finished_at IS NULL))
) WITHOUT ROWID;

CREATE TABLE job_events (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  job_id INTEGER NOT NULL,
  at REAL NOT NULL,
  event TEXT NOT NULL CHECK {_in("event", EVENTS)},
  worker_id TEXT,
  detail TEXT
);

CREATE TABLE workers (
  instance INTEGER PRIMARY KEY AUTOINCREMENT,
  label TEXT NOT NULL,
  pid INTEGER NOT NULL,
  pid_start INTEGER,
  boot_id TEXT,
  pid_ns TEXT,
  host TEXT,
  lock_dev INTEGER NOT NULL,
  lock_ino INTEGER NOT NULL,
  lane TEXT NOT NULL,
  kind TEXT NOT NULL CHECK {_in("kind", KINDS)},
  concurrency INTEGER NOT NULL,
  grace REAL NOT NULL,
  started_at REAL NOT NULL
);

CREATE TABLE job_tags (
  job_id INTEGER NOT NULL,
  key TEXT NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY (job_id, key)
) WITHOUT ROWID;

CREATE TABLE counts (
  queue TEXT NOT NULL,
  kind TEXT NOT NULL,
  state TEXT NOT NULL,
  n INTEGER NOT NULL,
  PRIMARY KEY (queue, kind, state)
) WITHOUT ROWID;

CREATE TABLE pruned (job_id INTEGER PRIMARY KEY);
"""

INDEXES = f"""
CREATE INDEX jobs_due ON jobs (queue, kind, priority DESC, next_run_at, id) WHERE state = 'queued';
CREATE INDEX jobs_queued ON jobs (queue, id) WHERE state = 'queued';
CREATE INDEX jobs_backoff ON jobs (queue, kind) WHERE state = 'queued' AND attempts > 0;
CREATE INDEX jobs_running ON jobs (queue, id) WHERE state = 'running';
CREATE INDEX jobs_ended ON jobs (queue, state, id, finished_at) WHERE {ENDED};
CREATE INDEX jobs_dead ON jobs (finished_at, id) WHERE state = 'dead';
CREATE INDEX jobs_key ON jobs (key, id) WHERE key IS NOT NULL;
CREATE UNIQUE INDEX jobs_active_key ON jobs (queue, key)
  WHERE key IS NOT NULL AND state IN ('queued', 'running');
CREATE INDEX events_job ON job_events (job_id, id);
CREATE INDEX tags_value ON job_tags (key, value, job_id);
CREATE INDEX tags_key ON job_tags (key, job_id);
"""

TRIGGERS = """
CREATE TRIGGER count_insert AFTER INSERT ON jobs BEGIN
  INSERT INTO counts (queue, kind, state, n) VALUES (new.queue, new.kind, new.state, 1)
  ON CONFLICT (queue, kind, state) DO UPDATE SET n = n + 1;
END;
CREATE TRIGGER count_update AFTER UPDATE OF state ON jobs WHEN old.state <> new.state BEGIN
  UPDATE counts SET n = n - 1 WHERE queue = old.queue AND kind = old.kind AND state = old.state;
  INSERT INTO counts (queue, kind, state, n) VALUES (new.queue, new.kind, new.state, 1)
  ON CONFLICT (queue, kind, state) DO UPDATE SET n = n + 1;
END;
CREATE TRIGGER count_delete AFTER DELETE ON jobs BEGIN
  UPDATE counts SET n = n - 1 WHERE queue = old.queue AND kind = old.kind AND state = old.state;
END;
"""


def statements(script: str) -> "list[str]":
    """The statements of a script, one by one: `executescript` would commit on its own."""
    from . import sqlite3

    found, current = [], ""
    for line in script.splitlines():
        current += line + "\n"
        if current.strip() and sqlite3.complete_statement(current):
            found.append(current)
            current = ""
    return found


_STORED = {"INTEGER": "typeof({0}) = 'integer'", "REAL": FINITE, "TEXT": "typeof({0}) = 'text'"}


def typed(tables: str) -> str:
    """The tables with a CHECK of the stored type for every column that declares one.

    SQLite before 3.37 has no STRICT: without these a column holds whatever somebody writes into it, and
    one such row would stop every worker of its lane. A column of words needs none: only text equals a word.
    """
    lines = []
    for line in tables.splitlines():
        words = line.rstrip(",").split()
        kind = words[1] if line.startswith("  ") and len(words) > 1 else ""
        of_words = kind == "TEXT" and "CHECK" in line
        if kind in _STORED and "PRIMARY KEY" not in line and not of_words:
            check = _STORED[kind].format(words[0])
            if "NOT NULL" not in line and kind != "REAL":
                check = f"{words[0]} IS NULL OR {check}"
            line = line.rstrip(",") + f" CHECK ({check})" + ("," if line.endswith(",") else "")
        lines.append(line)
    return "\n".join(lines)


def create(execute, contract_version: str) -> None:  # type: ignore[no-untyped-def]
    """Make the schema through `execute`, inside the caller's transaction."""
    for statement in statements(typed(TABLES) + INDEXES + TRIGGERS):
        execute(statement)
    execute("INSERT INTO meta VALUES ('tool', 'spoolctl'), ('contract_version', :v)", {"v": contract_version})
    execute(f"PRAGMA application_id = {APPLICATION_ID}")
    execute(f"PRAGMA user_version = {VERSION}")
