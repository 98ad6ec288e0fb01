"""Configuration keys and the kinds of value they have: how each is read from text, and what it allows in words.

A kind's `parse` raises ValueError; `Key` makes of it the ConfigError that a user sees, from the key, the value and the
kind's `allowed`.  No kind looks at another key, at the file system or at the network.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Protocol
from uuid import UUID

import attrs

from kraft_trio.errors import ConfigError
from kraft_trio.protocol.types import NO_DIRECTORY_ID, Endpoint, directory_id_from_text, directory_id_to_text

MAX_INT32 = 2**31 - 1
MAX_INT64 = 2**63 - 1

NO_STATE_MACHINE = "none"
LATEST_BY_KEY = "latest-by-key"
"""Values of kraft.state.machine besides a factory of the user's own."""

KEY = "kraft_trio.config_keys"
"""Under this name a field's metadata holds its `Key`."""

_LISTENER = re.compile(r"^([A-Za-z0-9_.-]+)://(.*)$")
_TOPIC_NAME = re.compile(r"^[A-Za-z0-9._-]{1,249}$")
_FACTORY = re.compile(r"^[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*$")
_HOST = re.compile(r"^[A-Za-z0-9._:%-]*$")


@attrs.frozen
class Listener:
    """A named listening address.  An empty host stands for every interface of the machine."""

    name: str
    endpoint: Endpoint

    def __str__(self) -> str:
        return f"{self.name}://{self.endpoint}"


@attrs.frozen
class StaticVoter:
    """One entry of controller.quorum.voters."""

    id: int
    endpoint: Endpoint

    def __str__(self) -> str:
        return f"{self.id}@{self.endpoint}"


class Kind(Protocol):
    """One kind of value."""

    @property
    def allowed(self) -> str:
        """What values it takes, in words that follow "expected"."""

    def parse(self, text: str) -> Any:
        """The value.  Raises ValueError with a reason, or with no text where `allowed` says it all."""

    def format(self, value: Any) -> str:
        """The text that `parse` reads as that value."""


@attrs.frozen
class Integer:
    """A whole number, both ends inclusive."""

    minimum: int
    maximum: int = MAX_INT32

    @property
    def allowed(self) -> str:
        return f"a whole number from {self.minimum} to {self.maximum}"

    def check(self, value: object) -> None:
        """Raises ValueError unless it is an int within the range."""
        if not isinstance(value, int) or isinstance(value, bool) or not self.minimum <= value <= self.maximum:
            raise ValueError

    def parse(self, text: str) -> int:
        if re.fullmatch(r"[+-]?[0-9]{1,20}", text) is None:
            raise ValueError
        value = int(text)
        self.check(value)
        return value

    def format(self, value: int) -> str:
        return str(value)


@attrs.frozen
class Truth:
    """`true` or `false`, in any case."""

    @property
    def allowed(self) -> str:
        return "true or false"

    def parse(self, text: str) -> bool:
        lowered = text.lower()
        if lowered not in ("true", "false"):
            raise ValueError
        return lowered == "true"

    def format(self, value: bool) -> str:
        return "true" if value else "false"


@attrs.frozen
class Text:
    """Text made by `read`, which raises ValueError."""

    allowed: str
    read: Callable[[str], Any]
    write: Callable[[Any], str] = str

    def parse(self, text: str) -> Any:
        return self.read(text)

    def format(self, value: Any) -> str:
        return self.write(value)


@attrs.frozen
class ListOf:
    """Items separated by commas, spaces around them ignored; the empty text is the empty list."""

    allowed: str
    read: Callable[[str], Any]

    def parse(self, text: str) -> tuple[Any, ...]:
        if not text.strip():
            return ()
        items = [item.strip() for item in text.split(",")]
        if "" in items:
            raise ValueError("an entry between two commas is empty")
        return tuple(self.read(item) for item in items)

    def format(self, value: tuple[Any, ...]) -> str:
        return ",".join(str(item) for item in value)


@attrs.frozen
class Key:
    """What a field knows of its configuration key."""

    name: str
    kind: Kind
    unit: str
    meaning: str

    def refuse(self, value: object, reason: str = "") -> ConfigError:
        """The error that names this key, the value, what is wrong with it (if known) and what is allowed."""
        why = f": {reason}" if reason else ""
        return ConfigError(f"{self.name}={value}{why}; expected {self.kind.allowed}")

    def parse(self, text: str) -> Any:
        """Read the text of a `.properties` file.  Raises ConfigError."""
        try:
            return self.kind.parse(text.strip())
        except ValueError as error:
            raise self.refuse(text, str(error)) from error


def _check_integer(_config: object, field: attrs.Attribute[Any], value: Any) -> None:
    key: Key = field.metadata[KEY]
    assert isinstance(key.kind, Integer)
    try:
        key.kind.check(value)
    except ValueError as error:
        raise key.refuse(value) from error


def config_key(name: str, kind: Kind, meaning: str, *, default: Any = attrs.NOTHING, unit: str = "") -> Any:
    """An attrs field that is read from the configuration key `name`; without a default the key must be set."""
    return attrs.field(
        default=default,
        validator=_check_integer if isinstance(kind, Integer) else None,
        converter=tuple if isinstance(kind, ListOf) else None,
        metadata={KEY: Key(name, kind, unit, meaning)},
    )


def parse_endpoint(text: str) -> Endpoint:
    """Read `host:port`, an IPv6 address in brackets.  Raises ValueError naming the text and the part that is wrong."""
    host, colon, port_text = text.rpartition(":")
    if not colon:
        raise ValueError(f"{text!r} has no port (host:port expected)")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"{text!r}: an IPv6 address is written in brackets, as in [::1]:9093")
    if not _HOST.match(host):
        raise ValueError(f"{text!r}: {host!r} is not a host name or address")
    if re.fullmatch(r"[0-9]{1,5}", port_text) is None or not 1 <= int(port_text) <= 65535:
        raise ValueError(f"{text!r}: the port is {port_text!r}, not a number from 1 to 65535")
    return Endpoint(host, int(port_text))


def parse_peer(text: str) -> Endpoint:
    """As `parse_endpoint`, for an address to connect to: the host must be there and must not be a wildcard."""
    endpoint = parse_endpoint(text)
    if not endpoint.host:
        raise ValueError(f"{text!r} has no host (host:port expected)")
    if endpoint.host in ("0.0.0.0", "::"):
        raise ValueError(f"{text!r}: {endpoint.host} stands for every interface and cannot be connected to")
    return endpoint


def _parse_listener(text: str) -> Listener:
    match = _LISTENER.match(text)
    if match is None:
        raise ValueError(f"{text!r} is not NAME://host:port")
    return Listener(match[1].upper(), parse_endpoint(match[2]))


def _parse_advertised_listener(text: str) -> Listener:
    listener = _parse_listener(text)
    return Listener(listener.name, parse_peer(text.partition("://")[2]))


def parse_replica_id(text: str) -> int:
    """A replica id: 0 to 2147483647.  Raises ValueError naming the text."""
    try:
        return Integer(0).parse(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a replica id (0 to {MAX_INT32})") from None


def _parse_static_voter(text: str) -> StaticVoter:
    id_text, at, endpoint_text = text.partition("@")
    if not at:
        raise ValueError(f"{text!r} is not id@host:port")
    return StaticVoter(parse_replica_id(id_text), parse_peer(endpoint_text))


def _parse_role(text: str) -> str:
    if text not in ("controller", "broker"):
        raise ValueError
    return text


def _parse_topic_name(text: str) -> str:
    if not _TOPIC_NAME.match(text) or text in (".", ".."):
        raise ValueError
    return text


def _parse_topic_id(text: str) -> UUID:
    topic_id = directory_id_from_text(text)
    if topic_id == NO_DIRECTORY_ID:
        raise ValueError("the zero id stands for no topic")
    return topic_id


def _parse_state_machine(text: str) -> str:
    if text not in (NO_STATE_MACHINE, LATEST_BY_KEY) and _FACTORY.match(text) is None:
        raise ValueError
    return text


def _parse_directory(text: str) -> str:
    if not text or "\0" in text:
        raise ValueError
    return text


def _parse_protocol_mapping(text: str) -> tuple[str, str]:
    name, colon, protocol = text.partition(":")
    if not colon or protocol.strip().upper() != "PLAINTEXT":
        raise ValueError(f"{text!r}: TLS and SASL listeners are not served")
    return name.strip().upper(), "PLAINTEXT"


ROLES = ListOf("controller, broker, or both", _parse_role)
LISTENERS = ListOf("NAME://host:port, separated by commas (an empty host for every interface)", _parse_listener)
ADVERTISED_LISTENERS = ListOf(
    "NAME://host:port, separated by commas, each an address that other machines can connect to",
    _parse_advertised_listener,
)
LISTENER_NAMES = ListOf("listener names separated by commas", lambda text: text.upper())
STATIC_VOTERS = ListOf("id@host:port, separated by commas", _parse_static_voter)
BOOTSTRAP_SERVERS = ListOf("host:port, separated by commas", parse_peer)
STATE_MACHINE = Text(f"{NO_STATE_MACHINE}, {LATEST_BY_KEY}, or module:factory", _parse_state_machine)
DIRECTORY = Text("the path of a directory", _parse_directory)
PROTOCOL_MAP = ListOf("NAME:PLAINTEXT, separated by commas", _parse_protocol_mapping)
TOPIC_NAME = Text("1 to 249 of the characters a-z A-Z 0-9 . _ -", _parse_topic_name)
TOPIC_ID = Text("a UUID as 22 characters of URL-safe base64, not zero", _parse_topic_id, directory_id_to_text)
