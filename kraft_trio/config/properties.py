"""Reading configuration keys from a `.properties` file, as Kafka's tools write it, or from the environment."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from typing import Any

import javaproperties

from kraft_trio.config.fields import KEY_OF_FIELD, KEYS
from kraft_trio.config.kafka_keys import HARMLESS_SECURITY, is_kafka_key, is_security_key
from kraft_trio.errors import ConfigError

_FIELD_OF_KEY = {key.name: field for field, key in KEY_OF_FIELD.items()}
ENVIRONMENT_PREFIX = "KRAFT_"
_DIRECTORY_KEYS = ("metadata.log.dir", "log.dirs", "log.dir")


def read_file(
    path: str | os.PathLike[str], overrides: Mapping[str, str] | None = None
) -> tuple[dict[str, str], list[str]]:
    """The keys of a `.properties` file and the overrides, which win, with warnings.  Raises ConfigError."""
    warnings: list[str] = []
    try:
        with open(path, "rb") as file:
            # Java reads such files as Latin-1; other characters are written as \u escapes.
            pairs = [item for item in javaproperties.parse(file) if isinstance(item, javaproperties.KeyValue)]
    except OSError as error:
        raise ConfigError(f"{os.fspath(path)}: cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise ConfigError(f"{os.fspath(path)}: not a .properties file: {error}") from error
    properties: dict[str, str] = {}
    for pair in pairs:
        if pair.key in properties and pair.key not in (overrides or {}):
            warnings.append(f"{pair.key}: given more than once; the last value, {pair.value!r}, is used")
        properties[pair.key] = pair.value
    return {**properties, **(overrides or {})}, warnings


def values_of(properties: Mapping[str, object]) -> tuple[dict[str, Any], list[str]]:
    """The values of the fields of NodeConfig, with warnings.  Raises ConfigError."""
    warnings: list[str] = []
    values: dict[str, Any] = {}
    for name, value in properties.items():
        field, text = _FIELD_OF_KEY.get(name), str(value)
        if field is not None:
            values[field] = KEY_OF_FIELD[field].take(value)
        elif is_security_key(name) and text.strip() and (name, text.strip().upper()) not in HARMLESS_SECURITY:
            raise ConfigError(
                f"{name}={text}: kraft has no authentication, authorization or encryption yet and would serve "
                "everybody; expected the key not to be set"
            )
        elif name not in _DIRECTORY_KEYS:
            warnings.append(_unknown_key(name))
    if "metadata_log_dir" not in values and (directory := _first_log_directory(properties)) is not None:
        values["metadata_log_dir"] = directory
    for key, default in KEYS:
        if default is None and _FIELD_OF_KEY[key.name] not in values:
            raise ConfigError(f"{key.name}: not set; expected {key.kind.allowed}")
    return values, warnings


def environment_variable(key: str) -> str:
    """The variable that sets a key: `KRAFT_NODE_ID` for `node.id`, `KRAFT_TOPIC_NAME` for `kraft.topic.name`."""
    return ENVIRONMENT_PREFIX + key.removeprefix("kraft.").replace(".", "_").upper()


def read_environment(variables: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """The keys that variables set, and warnings of variables that only look like it."""
    key_of = {environment_variable(key): key for key in (*_FIELD_OF_KEY, *_DIRECTORY_KEYS)}
    properties, warnings = {}, []
    for variable, text in variables.items():
        if variable in key_of:
            properties[key_of[variable]] = text
        elif variable.startswith(ENVIRONMENT_PREFIX):
            nearest = difflib.get_close_matches(variable, key_of, n=1, cutoff=0.0)
            warnings.append(f"{variable}: no such variable, ignored; the nearest known one is {nearest[0]}")
    return properties, warnings


def _first_log_directory(properties: Mapping[str, object]) -> str | None:
    for name in _DIRECTORY_KEYS[1:]:
        if first := str(properties.get(name, "")).split(",")[0].strip():
            return first
    return None


def _unknown_key(name: str) -> str:
    known = [*_FIELD_OF_KEY, *_DIRECTORY_KEYS]
    if is_kafka_key(name):
        return f"{name}: a Kafka key that kraft does not use"
    nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
    return f"{name}: unknown key, ignored; the nearest known one is {nearest[0]}"
