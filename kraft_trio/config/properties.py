"""Reading configuration keys from a `.properties` file, as Kafka's tools write it, or from the environment."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping
from io import BytesIO
from typing import Any

import attrs
import javaproperties

from kraft_trio.config.fields import KEY_OF_FIELD, KEYS
from kraft_trio.config.kafka_keys import HARMLESS_SECURITY, is_kafka_key, is_security_key, keys_of_kafkas_file
from kraft_trio.config.sasl_fields import SASL_KEY_OF_FIELD, SaslFields
from kraft_trio.config.tls_fields import TLS_KEY_OF_FIELD, TlsFields
from kraft_trio.errors import ConfigError

_FIELD_OF_KEY = {key.name: field for field, key in KEY_OF_FIELD.items()}
_TLS_FIELD_OF_KEY = {key.name: field for field, key in TLS_KEY_OF_FIELD.items()}
_SASL_FIELD_OF_KEY = {key.name: field for field, key in SASL_KEY_OF_FIELD.items()}
_OF_LISTENER = re.compile(r"listener\.name\.(?P<listener>[^.]+)\.(?P<key>.+)")
MAX_FILE_BYTES = 2**20
"""Of a `.properties` file.  A device or a log that was named by mistake may have no end."""
ENVIRONMENT_PREFIX = "KRAFT_"
VARIABLES_OF_COMMANDS = frozenset(
    {
        "KRAFT_BOOTSTRAP_CONTROLLER",
        "KRAFT_CLUSTER_ID",
        "KRAFT_COMMAND_CONFIG",
        "KRAFT_CONFIG",
        "KRAFT_KV_ENDPOINTS",
        "KRAFT_LOG_FORMAT",
        "KRAFT_LOG_LEVEL",
    }
)
"""`kraft` commands read these variables.  No key of a node belongs to them."""
_ALIKE = 0.75
"""From which likeness on a variable is taken for a mistyped one.  Others, such as Kubernetes makes, are not ours."""
_DIRECTORY_KEYS = ("metadata.log.dir", "log.dirs", "log.dir")
PROTOCOL_OF_CLIENT = "security.protocol"
_OF_LISTENERS_ONLY = frozenset(
    {
        "sasl.enabled.mechanisms",
        "sasl.mechanism.controller.protocol",
        "ssl.client.auth",
        "ssl.principal.mapping.rules",
    }
)
CLIENT_KEYS = frozenset({PROTOCOL_OF_CLIENT, *_TLS_FIELD_OF_KEY, *_SASL_FIELD_OF_KEY}) - _OF_LISTENERS_ONLY
"""The keys of a client that say how to connect.  The file of a client may have others."""


def read_file(
    path: str | os.PathLike[str], overrides: Mapping[str, str] | None = None
) -> tuple[dict[str, str], list[str]]:
    """The keys of a `.properties` file and the overrides, which win, with warnings.  Raises ConfigError."""
    warnings: list[str] = []
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise ValueError(f"more than {MAX_FILE_BYTES} bytes")
        # Java reads such files as Latin-1; other characters are written as \u escapes.
        pairs = [item for item in javaproperties.parse(BytesIO(data)) if isinstance(item, javaproperties.KeyValue)]
    except OSError as error:
        raise ConfigError(f"{os.fspath(path)}: cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise ConfigError(f"{os.fspath(path)}: not a .properties file: {error}") from error
    properties: dict[str, str] = {}
    for pair in pairs:
        if pair.key in properties and pair.key not in (overrides or {}):
            shown = f", {pair.value!r}," if not is_security_key(pair.key) else ""
            warnings.append(f"{pair.key}: given more than once; the last value{shown} is used")
        properties[pair.key] = pair.value
    return {**properties, **(overrides or {})}, warnings


def values_of(properties: Mapping[str, object]) -> tuple[dict[str, Any], list[str]]:
    """The values of the fields of NodeConfig, with warnings.  Raises ConfigError.

    A file of Kafka's own has keys that only Kafka uses.  That is no warning.
    """
    warnings: list[str] = []
    values: dict[str, Any] = {}
    tls: dict[str, Any] = {}
    tls_of_listener: dict[str, dict[str, Any]] = {}
    sasl: dict[str, Any] = {}
    sasl_of_listener: dict[str, dict[str, Any]] = {}
    of_kafka = keys_of_kafkas_file(properties)
    for name, value in properties.items():
        field, text = _FIELD_OF_KEY.get(name), str(value)
        of_listener = _OF_LISTENER.fullmatch(name)
        if field is not None:
            values[field] = KEY_OF_FIELD[field].take(value)
        elif name in _TLS_FIELD_OF_KEY:
            tls[_TLS_FIELD_OF_KEY[name]] = value
        elif of_listener is not None and of_listener["key"] in _TLS_FIELD_OF_KEY:
            field = _TLS_FIELD_OF_KEY[of_listener["key"]]
            own = tls_of_listener.setdefault(of_listener["listener"].upper(), {})
            own[field] = attrs.evolve(TLS_KEY_OF_FIELD[field], name=name).take(value)
        elif name in _SASL_FIELD_OF_KEY:
            sasl[_SASL_FIELD_OF_KEY[name]] = value
        elif of_listener is not None and of_listener["key"] in _SASL_FIELD_OF_KEY:
            field = _SASL_FIELD_OF_KEY[of_listener["key"]]
            own = sasl_of_listener.setdefault(of_listener["listener"].upper(), {})
            own[field] = attrs.evolve(SASL_KEY_OF_FIELD[field], name=name).take(value)
        elif is_security_key(name) and text.strip() and (name, text.strip().upper()) not in HARMLESS_SECURITY:
            # Its value may be a password.
            raise ConfigError(f"{name}: kraft does not support this security key; expected the key not to be set")
        elif name not in _DIRECTORY_KEYS and not (of_kafka and is_kafka_key(name)):
            warnings.append(_unknown_key(name))
    values["keys_of_kafka"] = of_kafka
    values["tls"] = TlsFields(**tls)
    values["listener_tls"] = {name: TlsFields(**{**tls, **own}) for name, own in tls_of_listener.items()}
    values["sasl"] = SaslFields(**sasl)
    values["listener_sasl"] = {name: SaslFields(**{**sasl, **own}) for name, own in sasl_of_listener.items()}
    if "metadata_log_dir" not in values and (directory := _first_log_directory(properties)) is not None:
        values["metadata_log_dir"] = directory
    for key, default in KEYS:
        if default is None and _FIELD_OF_KEY[key.name] not in values:
            raise ConfigError(f"{key.name}: not set; expected {key.kind.allowed}")
    return values, warnings


def listener_of_key(name: str) -> str | None:
    """The listener that a key such as `listener.name.client.ssl.client.auth` is for; None for another key."""
    of_listener = _OF_LISTENER.fullmatch(name)
    return None if of_listener is None else of_listener["listener"].upper()


def tls_of_client(properties: Mapping[str, str]) -> TlsFields:
    """The `ssl.` keys of a Kafka client's file.  Raises ConfigError."""
    given: dict[str, Any] = {
        _TLS_FIELD_OF_KEY[key]: text for key, text in properties.items() if key in _TLS_FIELD_OF_KEY
    }
    return TlsFields(**given)


def sasl_of_client(properties: Mapping[str, str]) -> SaslFields:
    """The `sasl.` keys of a Kafka client's file.  Raises ConfigError."""
    given: dict[str, Any] = {
        _SASL_FIELD_OF_KEY[key]: text for key, text in properties.items() if key in _SASL_FIELD_OF_KEY
    }
    return SaslFields(**given)


def environment_variable(key: str) -> str:
    """The variable that sets a key: `KRAFT_NODE_ID` for `node.id`, `KRAFT_TOPIC_NAME` for `kraft.topic.name`."""
    return ENVIRONMENT_PREFIX + key.removeprefix("kraft.").replace(".", "_").upper()


def read_environment(variables: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """The keys that variables set, and warnings of variables that look mistyped."""
    key_of = {environment_variable(key): key for key in _known_keys()}
    properties, warnings = {}, []
    for variable, text in variables.items():
        if variable in key_of:
            properties[key_of[variable]] = text
        elif variable.startswith(ENVIRONMENT_PREFIX) and variable not in VARIABLES_OF_COMMANDS:
            for nearest in difflib.get_close_matches(variable, (*key_of, *VARIABLES_OF_COMMANDS), 1, _ALIKE):
                warnings.append(f"{variable}: no such variable, ignored; the nearest known one is {nearest}")
    return properties, warnings


def without_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """An environment without what sets a key or an option of `kraft`, for commands that name all of it."""
    ours = VARIABLES_OF_COMMANDS.union(map(environment_variable, _known_keys()))
    return {name: text for name, text in variables.items() if name not in ours}


def _first_log_directory(properties: Mapping[str, object]) -> str | None:
    for name in _DIRECTORY_KEYS[1:]:
        if first := str(properties.get(name, "")).split(",")[0].strip():
            return first
    return None


def _known_keys() -> tuple[str, ...]:
    return (*_FIELD_OF_KEY, *_TLS_FIELD_OF_KEY, *_SASL_FIELD_OF_KEY, *_DIRECTORY_KEYS)


def _unknown_key(name: str) -> str:
    if is_kafka_key(name):
        return f"{name}: a Kafka key that kraft does not use"
    nearest = difflib.get_close_matches(name, _known_keys(), n=1, cutoff=0.0)
    return f"{name}: unknown key, ignored; the nearest known one is {nearest[0]}"
