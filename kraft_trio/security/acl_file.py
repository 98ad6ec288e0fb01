"""Reads access rules from a TOML file (docs/how-to/secure.md#rules)."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any, Final

import attrs

from kraft_trio.errors import ConfigError
from kraft_trio.protocol.types import NO_DIRECTORY_ID, directory_id_from_text
from kraft_trio.security.authorization import (
    ANY_HOST,
    CLUSTER,
    AclRule,
    Operation,
    Pattern,
    Permission,
    Resource,
    ResourceType,
)
from kraft_trio.security.voter_bindings import Binding

_RULE_KEYS: Final = {"principal", "operations", "host", "topic", "topic-prefix"}
_BINDING_KEYS: Final = {"principal", "node-id", "directory-id"}
_OF_THE_OTHER: Final = {
    ResourceType.cluster: (Operation.read, Operation.write),
    ResourceType.topic: (Operation.cluster_action, Operation.idempotent_write),
}
"""The operations that no request needs on such a resource; as in Kafka's `AclEntry.supportedOperations`."""
_SECTIONS: Final = {"allow", "deny", "voter"}


@attrs.frozen
class AclFile:
    rules: tuple[AclRule, ...] = ()
    bindings: tuple[Binding, ...] = ()


def parse_acls(text: str) -> AclFile:
    """Raises ValueError naming the entry and what is wrong in it."""
    try:
        content = tomllib.loads(text)
    except RecursionError:
        raise ValueError("lists within one another, too many levels") from None
    _check_keys("the file", content, _SECTIONS)
    rules, bindings = [], []
    for section in sorted(content):
        entries = content[section]
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise ValueError(f"{section}: expected entries that begin with [[{section}]]")
        for number, entry in enumerate(entries, 1):
            where = f"[[{section}]] number {number}"
            try:
                if section == "voter":
                    bindings.append(_binding(where, entry))
                else:
                    rules.extend(_rules(where, Permission(section.upper()), entry))
            except KeyError as error:
                raise ValueError(f"{where}: {error.args[0]} is missing") from None
    return AclFile(tuple(rules), tuple(bindings))


def read_acls(key: str, path: str) -> AclFile:
    """Raises ConfigError."""
    try:
        with open(path, "rb") as file:
            return parse_acls(file.read().decode())
    except OSError as error:
        raise ConfigError(f"{key}={path}: {error.strerror or error}") from error
    except ValueError as error:  # also UnicodeDecodeError and TOMLDecodeError
        raise ConfigError(f"{key}={path}: {error}") from error


def _rules(where: str, permission: Permission, entry: Mapping[str, Any]) -> list[AclRule]:
    _check_keys(where, entry, _RULE_KEYS)
    if "topic" in entry and "topic-prefix" in entry:
        raise ValueError(f"{where}: topic and topic-prefix exclude each other")
    resource, pattern = CLUSTER, Pattern.literal
    for key, named in (("topic", Pattern.literal), ("topic-prefix", Pattern.prefixed)):
        if key in entry:
            resource, pattern = Resource(ResourceType.topic, _text(where, entry, key)), named
    operations = entry["operations"]
    if not isinstance(operations, list) or any(one not in list(Operation) for one in operations):
        raise ValueError(f"{where}: operations={operations!r}; expected a list of {', '.join(Operation)}")
    principal, host = _principal(where, entry), _host(where, entry)
    senseless = next((one for one in operations if one in _OF_THE_OTHER[resource.type]), None)
    if senseless is not None:
        # It would allow or deny nothing.
        needed = "topic or topic-prefix" if resource.type is ResourceType.cluster else "a rule without a topic"
        raise ValueError(f"{where}: operations={operations!r}; {senseless} needs {needed}")
    return [AclRule(permission, principal, Operation(one), resource, host, pattern) for one in operations]


def _binding(where: str, entry: Mapping[str, Any]) -> Binding:
    _check_keys(where, entry, _BINDING_KEYS)
    node_id = entry["node-id"]
    if not isinstance(node_id, int) or isinstance(node_id, bool) or node_id < 0:
        raise ValueError(f"{where}: node-id={node_id!r}; expected a node's id")
    directory_id = NO_DIRECTORY_ID
    if "directory-id" in entry:
        text = _text(where, entry, "directory-id")
        try:
            directory_id = directory_id_from_text(text)
        except ValueError as error:
            raise ValueError(f"{where}: directory-id={error}") from None
    return Binding(_principal(where, entry), node_id, directory_id)


def _principal(where: str, entry: Mapping[str, Any]) -> str:
    principal = _text(where, entry, "principal")
    if not principal.startswith("User:"):
        raise ValueError(f"{where}: principal={principal!r}; expected User: and a name")
    return principal


def _host(where: str, entry: Mapping[str, Any]) -> str:
    """As connections tell it.  A name would allow or deny nobody."""
    host = _text(where, {"host": ANY_HOST, **entry}, "host")
    if host == ANY_HOST:
        return host
    try:
        return str(ip_address(host))
    except ValueError:
        raise ValueError(f"{where}: host={host!r}; expected an IP address or {ANY_HOST}") from None


def _text(where: str, entry: Mapping[str, Any], key: str) -> str:
    value = entry[key]
    if not isinstance(value, str) or not value:
        raise ValueError(f"{where}: {key}={value!r}; expected a text")
    return value


def _check_keys(where: str, entry: Mapping[str, Any], known: set[str]) -> None:
    for key in entry:
        if key not in known:
            raise ValueError(f"{where}: {key} is unknown; expected {', '.join(sorted(known))}")
