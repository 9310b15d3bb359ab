"""spoolctl: a daemonless, crash-safe queue for shell commands in one SQLite file."""

__version__ = "0.1.0"

CONTRACT_VERSION = "2"
