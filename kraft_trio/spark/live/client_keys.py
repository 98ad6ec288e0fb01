"""Options such as `kafka.ssl.truststore.location`: the keys of a Kafka client, as Spark's Kafka source takes them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Final

from kraft_trio.config.properties import CLIENT_KEYS, PROTOCOL_OF_CLIENT
from kraft_trio.errors import ConfigError
from kraft_trio.security.client_network import Security

PREFIX: Final = "kafka."
BOOTSTRAP_SERVERS: Final = "kafka.bootstrap.servers"


def client_keys(given: Mapping[str, str]) -> dict[str, str]:
    """The options that are keys of a client, by their names as given."""
    return {
        name: text
        for name, text in given.items()
        if name.lower().startswith(PREFIX) and name.lower() != BOOTSTRAP_SERVERS
    }


def security_of(source: str, keys: Mapping[str, str]) -> Security:
    """How a client with these keys connects; opens no file.

    Raises ConfigError for an unknown key, a value that is not allowed, and a key that has no effect with that
    `kafka.security.protocol`.  It shows no secret.
    """
    properties = {name.lower().removeprefix(PREFIX): text for name, text in keys.items()}
    for key in properties:
        if key not in CLIENT_KEYS:
            nearest = difflib.get_close_matches(key, CLIENT_KEYS, n=1, cutoff=0.0)
            raise ConfigError(
                f"format {source}: option {PREFIX}{key}: there is no such option; the nearest one is "
                f"{PREFIX}{nearest[0]}.  Of a client's keys, those for TLS and SASL are options"
            )
    try:
        security = Security.of_client(properties)
    except ConfigError as error:
        raise ConfigError(f"format {source}: option {PREFIX}{error}") from None
    idle = [
        *(_keys_of("ssl.", properties) if security.tls is None else ()),
        *(_keys_of("sasl.", properties) if security.login is None else ()),
    ]
    if idle:
        protocol = properties.get(PROTOCOL_OF_CLIENT, "PLAINTEXT")
        raise ConfigError(
            f"format {source}: option {PREFIX}{idle[0]}: has no effect with {PREFIX}{PROTOCOL_OF_CLIENT}={protocol}"
        )
    return security


def _keys_of(part: str, keys: Iterable[str]) -> list[str]:
    return [key for key in keys if key.startswith(part) or f".{part}" in key]
