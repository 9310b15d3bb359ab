"""The schema as it is when made new. Invariants are CHECKs; counts are kept by triggers.

Indexes on queued and running rows are partial, because a row changes state twice in its life.
Per lane and state every index ends in the id, so that any flat filter of `list` is a short merge.
"""

from ..contract.states import ATTEMPT_STATES, EVENTS, JOB_STATES, KINDS, REASONS, REQUESTS, TERMINAL

VERSION = 1
APPLICATION_ID = 0x53504F4C  # "SPOL": tells our file from a foreign one


def _in(column: str, words: "tuple[str, ...]", null: bool = False) -> str:
    listed = ", ".join(f"'{word}'" for word in words)
    return f"({column} IS NULL OR {column} IN ({listed}))" if null else f"({column} IN ({listed}))"


FINITE = "abs({}) < 9e999"  # infinity has no JSON; of null it says null, which no CHECK refuses


def _number(column: str, null: bool = False) -> str:
    """A number kept as it was given, whole or not: a column without affinity."""
    kinds = "'integer', 'real', 'null'" if null else "'integer', 'real'"
    return f"{column} CHECK (typeof({column}) IN ({kinds}) AND {FINITE.format(column)})"


ENDED = _in("state", TERMINAL)[1:-1]

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
  cwd CHECK (typeof(cwd) IN ('text', 'blob', 'null')),
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
  CHECK (({ENDED}) = (finished_at IS NOT NULL)),
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
    import sqlite3

    found, current = [], ""
    for line in script.splitlines():
        current += line + "\n"
        if current.strip() and sqlite3.complete_statement(current):
            found.append(current)
            current = ""
    return found


_STORED = {"INTEGER": "'integer'", "REAL": "'real'", "TEXT": "'text'"}


def typed(tables: str) -> str:
    """The tables with a CHECK of the stored type for every column that declares one.

    SQLite before 3.37 has no STRICT: without these a column holds whatever somebody writes into it, and
    one such row would stop every worker of its lane.
    """
    lines = []
    for line in tables.splitlines():
        words = line.rstrip(",").split()
        kind = _STORED.get(words[1]) if line.startswith("  ") and len(words) > 1 else None
        if kind is not None and "PRIMARY KEY" not in line:
            allowed = f"= {kind}" if "NOT NULL" in line else f"IN ({kind}, 'null')"
            finite = f" AND {FINITE.format(words[0])}" if words[1] == "REAL" else ""
            check = f" CHECK (typeof({words[0]}) {allowed}{finite})"
            line = line.rstrip(",") + check + ("," if line.endswith(",") else "")
        lines.append(line)
    return "\n".join(lines)


def create(execute, contract_version: str) -> None:  # type: ignore[no-untyped-def]
    """Make the schema through `execute`, inside the caller's transaction."""
    for statement in statements(typed(TABLES) + INDEXES + TRIGGERS):
        execute(statement)
    execute("INSERT INTO meta VALUES ('tool', 'spoolctl'), ('contract_version', :v)", {"v": contract_version})
    execute(f"PRAGMA application_id = {APPLICATION_ID}")
    execute(f"PRAGMA user_version = {VERSION}")
