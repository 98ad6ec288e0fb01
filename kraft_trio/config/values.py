"""The values of configuration keys that are not plain numbers: how they are read from text and written back."""

from __future__ import annotations

import re
from uuid import UUID

import attrs

from kraft_trio.config.key import MAX_INT32, Integer, ListOf, Text
from kraft_trio.protocol.kafka_records import SETTINGS as KAFKA_RECORDS_SETTINGS
from kraft_trio.protocol.types import NO_DIRECTORY_ID, Endpoint, directory_id_from_text, directory_id_to_text

NO_STATE_MACHINE = "none"
LATEST_BY_KEY = "latest-by-key"
KEY_VALUE = "kv"
"""Values of kraft.state.machine other than a user's factory."""

PLAINTEXT = "PLAINTEXT"
SSL = "SSL"
SASL_PLAINTEXT = "SASL_PLAINTEXT"
SASL_SSL = "SASL_SSL"
SECURITY_PROTOCOLS = (PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL)

HTTPS = "HTTPS"
"""The name of a status listener with TLS."""

STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"

_LISTENER = re.compile(r"^([A-Za-z0-9_.-]+)://(.*)$")
_TOPIC_NAME = re.compile(r"^[A-Za-z0-9._-]{1,249}$")
_FACTORY = re.compile(r"^[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*$")
_HOST = re.compile(r"^[A-Za-z0-9._:%-]*$")


@attrs.frozen
class NamedListener:
    """A named listening address.  An empty host means every interface."""

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


def parse_endpoint(text: str) -> Endpoint:
    """Read `host:port`, with an IPv6 address in brackets.  Raises ValueError naming the text and the wrong part."""
    host, colon, port_text = text.rpartition(":")
    if not colon:
        raise ValueError(f"{text!r} has no port (host:port expected)")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif "://" in host:
        raise ValueError(f"{text!r}: host:port expected, without the name of the listener")
    elif ":" in host:
        raise ValueError(f"{text!r}: an IPv6 address is written in brackets, as in [::1]:9093")
    if not _HOST.match(host):
        raise ValueError(f"{text!r}: {host!r} is not a host name or address")
    if re.fullmatch(r"[0-9]{1,5}", port_text) is None or not 1 <= int(port_text) <= 65535:
        raise ValueError(f"{text!r}: the port is {port_text!r}, not a number from 1 to 65535")
    return Endpoint(host, int(port_text))


def parse_peer(text: str) -> Endpoint:
    """Like `parse_endpoint`, for an address to connect to: the host is required and must not be a wildcard."""
    endpoint = parse_endpoint(text)
    if not endpoint.host:
        raise ValueError(f"{text!r} has no host (host:port expected)")
    if endpoint.host in ("0.0.0.0", "::"):
        raise ValueError(f"{text!r}: {endpoint.host} means every interface and cannot be connected to")
    return endpoint


def _parse_listener(text: str) -> NamedListener:
    match = _LISTENER.match(text)
    if match is None:
        raise ValueError(f"{text!r} is not NAME://host:port")
    return NamedListener(match[1].upper(), parse_endpoint(match[2]))


def _checked_listener(listener: NamedListener) -> NamedListener:
    return attrs.evolve(listener, name=listener.name.upper())


def _parse_advertised_listener(text: str) -> NamedListener:
    listener = _parse_listener(text)
    return NamedListener(listener.name, parse_peer(text.partition("://")[2]))


def _parse_host_name(text: str) -> str:
    if not text or ":" in text or not _HOST.match(text):
        raise ValueError(f"{text!r} is not a host name")
    return text.lower()


def _parse_http_listener(text: str) -> NamedListener:
    return _http(_parse_listener(text))


def _parse_advertised_http_listener(text: str) -> NamedListener:
    return _http(_parse_advertised_listener(text))


def _parse_status_listener(text: str) -> NamedListener:
    return _http_or_https(_parse_listener(text))


def _http_or_https(listener: NamedListener) -> NamedListener:
    return listener if listener.name == HTTPS else _http(listener)


def _http(listener: NamedListener) -> NamedListener:
    if listener.name != "HTTP":
        raise ValueError(f"{str(listener)!r} does not begin with HTTP://")
    return listener


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
        raise ValueError("the zero id is reserved")
    return topic_id


def _parse_state_machine(text: str) -> str:
    if text not in (NO_STATE_MACHINE, LATEST_BY_KEY, KEY_VALUE) and _FACTORY.match(text) is None:
        raise ValueError
    return text


def _parse_offset(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise ValueError
    return int(text)


def _parse_kafka_records(text: str) -> str:
    if text not in KAFKA_RECORDS_SETTINGS:
        raise ValueError
    return text


def _parse_directory(text: str) -> str:
    if not text or "\0" in text:
        raise ValueError
    return text


def _checked_mapping(pair: tuple[object, ...]) -> tuple[str, str]:
    if len(pair) != 2 or not all(isinstance(part, str) for part in pair):
        raise ValueError(f"{pair!r} is not a listener and its protocol")
    return _parse_protocol_mapping(":".join(map(str, pair)))


def _parse_protocol_mapping(text: str) -> tuple[str, str]:
    name, colon, protocol = text.partition(":")
    if not colon or protocol.strip().upper() not in SECURITY_PROTOCOLS:
        raise ValueError(f"{text!r}: the security protocol is none of {', '.join(SECURITY_PROTOCOLS)}")
    return name.strip().upper(), protocol.strip().upper()


def _parse_authorizer(text: str) -> str:
    if text not in ("", STANDARD_AUTHORIZER):
        raise ValueError
    return text


def _parse_super_users(text: str) -> tuple[str, ...]:
    """A distinguished name has commas, so semicolons separate them."""
    users = tuple(user.strip() for user in text.split(";") if user.strip())
    for user in users:
        if not user.startswith("User:"):
            raise ValueError(f"{user!r} does not begin with User:")
        if re.search(r",\s*User:", user):
            raise ValueError(f"{user!r} has a comma before User:")
    return users


ROLES = ListOf("controller, broker, or both", _parse_role)
LISTENERS = ListOf(
    "NAME://host:port, separated by commas (an empty host for every interface)",
    _parse_listener,
    NamedListener,
    _checked_listener,
)
ADVERTISED_LISTENERS = ListOf(
    "NAME://host:port, separated by commas, each an address that other machines can connect to",
    _parse_advertised_listener,
    NamedListener,
    _checked_listener,
)
LISTENER_NAMES = ListOf("listener names separated by commas", lambda text: text.upper())
STATIC_VOTERS = ListOf("id@host:port, separated by commas", _parse_static_voter, StaticVoter)
BOOTSTRAP_SERVERS = ListOf("host:port, separated by commas", parse_peer, Endpoint)
STATE_MACHINE = Text(f"{NO_STATE_MACHINE}, {LATEST_BY_KEY}, {KEY_VALUE}, or module:factory", _parse_state_machine)
OFFSETS = ListOf("offsets separated by commas", _parse_offset, int)
HTTP_LISTENER = ListOf(
    "HTTP://host:port (an empty host for every interface)",
    _parse_http_listener,
    NamedListener,
    lambda listener: _http(_checked_listener(listener)),
)
STATUS_LISTENER = ListOf(
    "HTTP://host:port or HTTPS://host:port (an empty host for every interface)",
    _parse_status_listener,
    NamedListener,
    lambda listener: _http_or_https(_checked_listener(listener)),
)
ADVERTISED_HTTP_LISTENER = ListOf(
    "HTTP://host:port, an address that other machines can connect to",
    _parse_advertised_http_listener,
    NamedListener,
    lambda listener: _http(_checked_listener(listener)),
)
HOST_NAMES = ListOf("host names without ports, separated by commas", _parse_host_name)
KAFKA_RECORDS = Text(", ".join(KAFKA_RECORDS_SETTINGS), _parse_kafka_records)
DIRECTORY = Text("the path of a directory", _parse_directory)
PROTOCOL_MAP = ListOf(
    f"NAME:PROTOCOL, separated by commas, each {' or '.join(SECURITY_PROTOCOLS)}",
    _parse_protocol_mapping,
    tuple,
    _checked_mapping,
)
AUTHORIZER = Text(f"{STANDARD_AUTHORIZER}, or empty", _parse_authorizer)
SUPER_USERS = Text("principals such as User:CN=node-1, separated by semicolons", _parse_super_users, ";".join, tuple)
ACL_FILE = Text("the path of a file", str)
TOPIC_NAME = Text("1 to 249 of the characters a-z A-Z 0-9 . _ -", _parse_topic_name)
TOPIC_ID = Text("a UUID as 22 characters of URL-safe base64, not zero", _parse_topic_id, directory_id_to_text, UUID)
