"""No password and no private key gets into a `repr`, a message, a log, a trace or a file of the node."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs
import pytest
import structlog.testing

from harness.ports import free_ports
from kraft_trio import NodeConfig, VoterSet, first_voter, format_node, open_node, random_uuid
from kraft_trio.config import KEYS, parse_config
from kraft_trio.config.jaas import PLAIN_MODULE
from kraft_trio.config.key import Key
from kraft_trio.config.properties import read_file
from kraft_trio.config.sasl_fields import PLAIN, SASL_KEYS, Login
from kraft_trio.config.secret import Secret, SecretText
from kraft_trio.config.tls_fields import TLS_KEYS
from kraft_trio.errors import ConfigError, NetworkError
from kraft_trio.security.sasl_network import SaslNetwork
from kraft_trio.wire.tcp_network import TcpNetwork

PREFIX = "hunter2"
EVERY_KEY: tuple[Key, ...] = tuple(key for key, _ in (*KEYS, *TLS_KEYS, *SASL_KEYS))
SECRET_KEYS = tuple(key for key in EVERY_KEY if isinstance(key.kind, SecretText))
BASE = {"node.id": "1", "listeners": "CONTROLLER://h:1,CLIENT://h:2", "metadata.log.dir": "d"}


def secret_of(name: str) -> str:
    return f"{PREFIX}-{name}"


def value_of(name: str) -> str:
    """A value of the key that has a secret in it."""
    if name.endswith("jaas.config"):
        options = f'username="user" password="{secret_of(name)}" user_a="{secret_of(name)}"'
        return f"{PLAIN_MODULE} required {options};"
    return secret_of(name)


def every_secret() -> dict[str, str]:
    """For all listeners, and for one."""
    names = [key.name for key in SECRET_KEYS]
    return {name: value_of(name) for name in (*names, *(f"listener.name.client.{name}" for name in names))}


def texts_in(value: object) -> Iterator[str]:
    """How the value and everything in it shows itself."""
    yield from (repr(value), str(value), f"{value}")
    if attrs.has(type(value)) and not isinstance(value, Secret):
        for field in attrs.fields(type(value)):
            yield from texts_in(getattr(value, field.name))
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from texts_in(one)


def test_what_sounds_like_a_secret_is_one() -> None:
    named = {key.name for key in EVERY_KEY if re.search(r"password|jaas|secret|\.key$|token", key.name)}
    assert {key.name for key in SECRET_KEYS} == named
    assert len(named) >= 8


def test_every_secret_of_the_configuration_is_hidden() -> None:
    loaded = parse_config({**BASE, **every_secret()})
    config = loaded.config
    assert config.tls.keystore_password.value == secret_of("ssl.keystore.password")
    assert config.listener_tls["CLIENT"].key_password.value == secret_of("listener.name.client.ssl.key.password")
    assert config.sasl.plain_users()["a"].value == secret_of("plain.sasl.jaas.config")
    assert loaded.warnings, "they name keys whose values are secret"
    shown = "\n".join((*texts_in(loaded), *loaded.warnings))
    assert "[hidden]" in shown
    assert PREFIX not in shown
    for key in SECRET_KEYS:
        assert PREFIX not in key.kind.format(key.parse(value_of(key.name)))
    assert PREFIX not in repr(config.sasl.login_of_client if config.sasl.mechanism else config.sasl)
    assert PREFIX not in repr(Login(PLAIN, "user", Secret(PREFIX)))


@pytest.mark.parametrize("key", SECRET_KEYS, ids=lambda key: key.name)
def test_value_that_cannot_be_used_is_not_quoted(key: Key) -> None:
    with pytest.raises(ConfigError) as refused:
        key.take([PREFIX])
    assert PREFIX not in str(refused.value)
    with pytest.raises(ConfigError) as refused:
        parse_config({**BASE, key.name + "s": PREFIX, "ssl.enabled.protocols": "TLSv1.1", key.name: value_of(key.name)})
    assert PREFIX not in str(refused.value)


def test_key_that_is_given_twice_is_not_quoted(tmp_path: Path) -> None:
    path = tmp_path / "node.properties"
    path.write_text("".join(2 * f"{name}={text}\n" for name, text in every_secret().items()))
    _, warnings = read_file(path)
    assert len(warnings) == 2 * len(SECRET_KEYS)
    assert PREFIX not in "".join(warnings)


def network_of(password: str) -> SaslNetwork:
    return SaslNetwork(TcpNetwork(), Login(PLAIN, "a", Secret(password)), "test")


def contents_of(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


async def test_running_node_shows_no_secret(tmp_path: Path) -> None:
    """With a trace, through a failed and a good authentication."""
    [port, client_port] = free_ports(2)
    config = NodeConfig.from_mapping(
        {
            "node.id": "1",
            "listeners": f"CONTROLLER://127.0.0.1:{port},CLIENT://127.0.0.1:{client_port}",
            "listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT,CLIENT:PLAINTEXT",
            "sasl.enabled.mechanisms": PLAIN,
            "sasl.mechanism.controller.protocol": PLAIN,
            "connection.failed.authentication.delay.ms": "0",
            "kraft.metrics.interval.ms": "10",
            "metadata.log.dir": str(tmp_path / "data"),
            **every_secret(),
        }
    )
    format_node(config, random_uuid(), VoterSet([first_voter(config)]))
    good = secret_of("plain.sasl.jaas.config")
    with structlog.testing.capture_logs() as lines:
        async with open_node(config, trace=tmp_path / "trace") as node:
            await node.append([b"value"])
            await (await network_of(good).connect(config.listeners[0].endpoint)).aclose()
            with pytest.raises(NetworkError) as refused:
                await network_of(f"{PREFIX}-wrong").connect(config.listeners[0].endpoint)
            assert PREFIX not in str(refused.value)
            shown = "".join((*texts_in(node.config), repr(node), node.metrics.exposition().decode()))
    assert len(lines) > 3
    assert PREFIX not in str(lines)
    assert PREFIX not in shown
    contents = contents_of(tmp_path)
    assert len(contents) > 3
    assert [name for name, content in contents.items() if PREFIX.encode() in content] == []
