"""The one list of value types and of the instances that verbs share (SPEC 2.4)."""

from . import limits
from .names import EnvVar, JobRef, Key, Lane, Tag, VerbName, WorkerId
from .numbers import Bytes, Float, Integer, whole
from .states import JOB_STATES
from .times import Duration, Timestamp
from .values import BadValue, Choice, ChoiceList, Command, Path, Text, Type, is_utf8

JOB_ID = Integer(1, limits.INT64_MAX)
KEY = Key()
LANE = Lane()
TIMESTAMP = Timestamp()
PATH = Path()
DIRECTORY = Path(directory=True)
WAIT = Duration(limits.WAIT_MAX, positive=True)
POLL = Duration(limits.POLL_MAX, positive=True)
PRIORITY = Integer(limits.PRIORITY_MIN, limits.PRIORITY_MAX)
STATES = ChoiceList(*JOB_STATES)

__all__ = [
    "DIRECTORY",
    "JOB_ID",
    "KEY",
    "LANE",
    "PATH",
    "POLL",
    "PRIORITY",
    "STATES",
    "TIMESTAMP",
    "WAIT",
    "BadValue",
    "Bytes",
    "Choice",
    "ChoiceList",
    "Command",
    "Duration",
    "EnvVar",
    "Float",
    "Integer",
    "JobRef",
    "Key",
    "Lane",
    "Path",
    "Tag",
    "Text",
    "Timestamp",
    "Type",
    "VerbName",
    "WorkerId",
    "is_utf8",
    "whole",
]
