"""The project's `.spoolctl/config.json`: read, checked, and what it leaves to the defaults (SPEC 2.5)."""

import os

from . import jsontext, paths
from .contract import env, limits
from .contract.types import LANE, PATH, BadValue, Duration, Integer, Type
from .errors import SpoolctlError, invalid

NAME = "config.json"
VERSION = 1
DEFAULTS: "dict[str, object]" = {"timeout": 300, "max_retries": 3, "max_crashes": 10, "queue": "default"}
TYPES: "dict[str, Type]" = {
    "timeout": Duration(limits.INT64_MAX, positive=True, none=True),
    "max_retries": Integer(0, limits.RETRIES_MAX),
    "max_crashes": Integer(0, limits.RETRIES_MAX, none=True),
    "queue": LANE,
}
# Where a setting is looked for, first match first.
PRECEDENCE = ("flag", "environment", "project_config", "default")
KEYS = ("version", "db_path", *[f"defaults.{key}" for key in DEFAULTS], "capture_env")


class Config:
    """What a config file says. `db_path` None: not set. `sources` says where each value is from."""

    def __init__(self, path: str, exists: bool = False) -> None:
        self.path = path
        self.exists = exists
        self.db_path: "str | None" = None
        self.defaults = dict(DEFAULTS)
        self.capture_env = list(env.CAPTURED)
        self.sources = {key: "default" for key in KEYS if key != "version"}
        self.recognized: "list[str]" = []
        self.unknown: "list[str]" = []


def path_in(project_dir: str) -> str:
    return os.path.join(project_dir, paths.FOLDER, NAME)


def load(path: str) -> Config:
    """The config at `path`; a missing file is valid. Raises INVALID_INPUT."""
    try:
        if (os.stat(paths.raw(path)).st_mode & 0o170000) != 0o100000:
            raise _bad(path, "is not a file")  # a pipe would be waited on for ever
        with open(paths.raw(path), "rb") as file:
            content = file.read(1_048_577)
    except (FileNotFoundError, NotADirectoryError):
        return Config(path)
    except OSError as error:
        raise _bad(path, f"cannot be read: {error.strerror}") from None
    if len(content) > 1_048_576:
        raise _bad(path, "is larger than 1 MiB")
    try:
        value = jsontext.loads(content.decode("utf-8"))
    except ValueError as error:
        raise _bad(path, f"is not JSON: {error}") from None
    return _checked(path, value)


def _checked(path: str, value: object) -> Config:
    config = Config(path, exists=True)
    if not isinstance(value, dict):
        raise _bad(path, "must be a JSON object")
    for key, item in value.items():
        if key == "version":
            if item != VERSION or isinstance(item, (bool, float)):
                raise _bad(path, f"version must be {VERSION}, not {item!r}")
        elif key == "db_path":
            config.db_path = _value(path, key, PATH, item)  # type: ignore[assignment]
        elif key == "defaults":
            if not isinstance(item, dict):
                raise _bad(path, "defaults must be an object")
            for name, default in item.items():
                if name not in TYPES:
                    config.unknown.append(f"defaults.{name}")
                    continue
                config.defaults[name] = _value(path, f"defaults.{name}", TYPES[name], default)
                config.recognized.append(f"defaults.{name}")
            continue
        elif key == "capture_env":
            if not isinstance(item, list) or not all(
                isinstance(name, str) and name and "=" not in name and "\0" not in name for name in item
            ):
                raise _bad(path, "capture_env must be a list of variable names")
            config.capture_env = list(dict.fromkeys(item))
        else:
            config.unknown.append(key)
            continue
        config.recognized.append(key)
    for key in config.recognized:
        if key != "version":
            config.sources[key] = "project_config"
    return config


def _value(path: str, key: str, kind: Type, value: object) -> object:
    try:
        return kind.check(value)
    except BadValue as bad:
        raise _bad(path, f"{key} {bad.message}") from None


def _bad(path: str, problem: str) -> SpoolctlError:
    message = f"config {path} {problem}; mend or remove the file; spoolctl config-validate checks it"
    return invalid(message, paths.show(path), flag="config", value=path)
