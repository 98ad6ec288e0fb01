"""Reading a node's configuration from a `.properties` file, as Kafka's tools write it."""

from __future__ import annotations

import difflib
import os
import socket
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import javaproperties

from kraft_trio.config.checks import refuse
from kraft_trio.config.fields import KEY_OF_FIELD, KEYS
from kraft_trio.config.kafka_keys import HARMLESS_SECURITY, is_kafka_key, is_security_key
from kraft_trio.config.node_config import NodeConfig
from kraft_trio.config.values import NamedListener
from kraft_trio.errors import ConfigError
from kraft_trio.protocol.types import Endpoint

_FIELD_OF_KEY = {key.name: field for field, key in KEY_OF_FIELD.items()}
_DIRECTORY_KEYS = ("metadata.log.dir", "log.dirs", "log.dir")


@attrs.frozen
class LoadedConfig:
    """A configuration, with the warnings about its file."""

    config: NodeConfig
    warnings: tuple[str, ...] = ()


def load_config(path: str | os.PathLike[str], overrides: Mapping[str, str] | None = None) -> LoadedConfig:
    """Read a `.properties` file; `overrides` (key to text) win over it.

    Raises ConfigError, naming the file if it cannot be read, or else the key, its value and the allowed values.
    """
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
    loaded = parse_config({**properties, **(overrides or {})})
    return attrs.evolve(loaded, warnings=(*warnings, *loaded.warnings))


def parse_config(properties: Mapping[str, str]) -> LoadedConfig:
    """Make a configuration from keys and texts.  Raises ConfigError."""
    warnings: list[str] = []
    values: dict[str, Any] = {}
    for name, text in properties.items():
        field = _FIELD_OF_KEY.get(name)
        if field is not None:
            values[field] = KEY_OF_FIELD[field].parse(text)
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
    values["advertised_listeners"] = _advertised(values.get("listeners", ()), values.get("advertised_listeners", ()))
    config = NodeConfig(**values)
    if not config.quorum_voters and not config.quorum_bootstrap_servers:
        warnings.append(
            "neither controller.quorum.bootstrap.servers nor controller.quorum.voters is set: "
            "this node can find a leader only if it was formatted with the voters"
        )
    return LoadedConfig(config, tuple(warnings))


def _advertised(listeners: Sequence[NamedListener], advertised: Sequence[NamedListener]) -> tuple[NamedListener, ...]:
    """The advertised listeners, completed from `listeners`.  Raises ConfigError for a wildcard."""
    given = {listener.name for listener in advertised}
    result = list(advertised)
    for listener in listeners:
        if listener.name in given:
            continue
        host = listener.endpoint.host or socket.gethostname()
        if host in ("0.0.0.0", "::"):
            raise refuse(
                "listeners",
                listener,
                f"nobody can connect to {host}; set advertised.listeners to an address that others can reach",
            )
        result.append(NamedListener(listener.name, Endpoint(host, listener.endpoint.port)))
    return tuple(result)


def _first_log_directory(properties: Mapping[str, str]) -> str | None:
    for name in _DIRECTORY_KEYS[1:]:
        if first := properties.get(name, "").split(",")[0].strip():
            return first
    return None


def _unknown_key(name: str) -> str:
    known = [*_FIELD_OF_KEY, *_DIRECTORY_KEYS]
    if is_kafka_key(name):
        return f"{name}: a Kafka key that kraft does not use"
    nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
    return f"{name}: unknown key, ignored; the nearest known one is {nearest[0]}"
