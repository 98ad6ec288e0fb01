"""Kafka's keys of SASL: what is read, what is refused, and that no password is shown."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft_trio.config.jaas import PLAIN_MODULE, SCRAM_MODULE, parse_jaas
from kraft_trio.config.node_config import parse_config
from kraft_trio.config.sasl_fields import Login
from kraft_trio.config.secret import Secret
from kraft_trio.errors import ConfigError
from kraft_trio.security.client_network import client_network
from kraft_trio.security.sasl_network import SaslNetwork
from kraft_trio.wire.tcp_network import TcpNetwork

MINIMAL = {"node.id": "1", "listeners": "CONTROLLER://a:9093,CLIENT://a:9092", "metadata.log.dir": "d"}
PLAIN_JAAS = f'{PLAIN_MODULE} required username="node" password="pw-1" user_node="pw-1" user_alice="pw-2";'
SCRAM_JAAS = f'{SCRAM_MODULE} required username="node" password="pw-3";'


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (PLAIN_JAAS, {"username": "node", "password": "pw-1", "user_node": "pw-1", "user_alice": "pw-2"}),
        (f'{SCRAM_MODULE}   required\n username=a\tpassword = "b c;" ;\n', {"username": "a", "password": "b c;"}),
        (f'{SCRAM_MODULE} REQUIRED password="a\\"b\\\\";', {"password": 'a"b\\'}),
        (f"{SCRAM_MODULE} required;", {}),
    ],
)
def test_a_login_module_is_read(text: str, options: dict[str, str]) -> None:
    assert {name: value.value for name, value in parse_jaas(text).options.items()} == options


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "does not begin with a login module"),
        (SCRAM_MODULE, "does not begin with a login module"),
        ('com.sun.Krb5LoginModule required keyTab="pw-9";', "com.sun.Krb5LoginModule is not served"),
        (f'{SCRAM_MODULE} required password="pw-9"', "after the option password comes neither"),
        (f'{SCRAM_MODULE} required password="pw-9;', "after the login module comes neither"),
        (f'{SCRAM_MODULE} required password="pw-9" pw-9;', "after the option password comes neither"),
        (f'{SCRAM_MODULE} required password="pw-9" password="b";', "password is given twice"),
        (f"{PLAIN_JAAS} {PLAIN_JAAS}", "after the option user_alice comes neither"),
    ],
)
def test_other_text_is_refused_without_its_passwords(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as refusal:
        parse_jaas(text)
    assert "pw-" not in str(refusal.value)
    if text:
        with pytest.raises(ConfigError, match=r"^sasl.jaas.config=\[hidden\]: ") as refused:
            parse_config({**MINIMAL, "sasl.jaas.config": text})
        assert "pw-" not in str(refused.value)


@given(st.text() | st.text(st.sampled_from(' ="\\;ab')).map(lambda rest: f"{SCRAM_MODULE} required {rest}"))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert parse_jaas(text).module in (PLAIN_MODULE, SCRAM_MODULE)


def test_keys_of_a_listener_go_before_general_ones() -> None:
    config = parse_config(
        {
            **MINIMAL,
            "listener.security.protocol.map": "CONTROLLER:SASL_SSL,CLIENT:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "sasl.mechanism.controller.protocol": "SCRAM-SHA-512",
            "sasl.jaas.config": SCRAM_JAAS,
            "listener.name.client.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            "listener.name.client.plain.sasl.jaas.config": PLAIN_JAAS,
        }
    ).config
    controller, client = config.sasl_of("CONTROLLER"), config.sasl_of("CLIENT")
    assert controller is not None
    assert client is not None
    assert controller.login_of_node() == Login("SCRAM-SHA-512", "node", Secret("pw-3"))
    assert controller.enabled_mechanisms == ("SCRAM-SHA-512",)
    assert client.enabled_mechanisms == ("PLAIN", "SCRAM-SHA-256")
    assert client.plain_users() == {"node": Secret("pw-1"), "alice": Secret("pw-2")}
    assert config.tls_of("CONTROLLER") is not None
    assert config.tls_of("CLIENT") is None
    assert "pw-" not in repr(config)


def test_keys_that_secure_nothing_are_warned_of() -> None:
    warning = "sasl keys are set, but listener.security.protocol.map secures no listener with SASL"
    assert warning in parse_config({**MINIMAL, "sasl.jaas.config": SCRAM_JAAS}).warnings
    assert warning not in parse_config(MINIMAL).warnings


def test_a_listener_named_like_a_protocol_uses_it() -> None:
    config = parse_config({**MINIMAL, "listeners": "CONTROLLER://a:9093,SASL_PLAINTEXT://a:9092"}).config
    assert config.sasl_of("SASL_PLAINTEXT") is not None
    assert config.sasl_of("CONTROLLER") is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sasl.enabled.mechanisms": "GSSAPI"}, "'GSSAPI' is not served; expected PLAIN or SCRAM-SHA-256"),
        ({"sasl.mechanism.controller.protocol": "PLAI"}, "'PLAI' is not served"),
        ({"sasl.kerberos.service.name": "kafka"}, "sasl.kerberos.service.name"),
        ({"listener.security.protocol.map": "CONTROLLER:SASL"}, "the security protocol is none of"),
    ],
)
def test_what_is_not_served_is_refused(changes: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_config({**MINIMAL, **changes})


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({}, "sasl.mechanism.controller.protocol is not set"),
        ({"sasl.mechanism.controller.protocol": "PLAIN"}, "sasl.jaas.config is not set: PLAIN needs"),
        ({"sasl.mechanism.controller.protocol": "PLAIN", "sasl.jaas.config": SCRAM_JAAS}, "PLAIN needs .*PlainLogin"),
        (
            {"sasl.mechanism.controller.protocol": "PLAIN", "sasl.jaas.config": f"{PLAIN_MODULE} required;"},
            "needs the options username and password",
        ),
    ],
)
def test_a_node_needs_a_login_for_its_peers(keys: dict[str, str], message: str) -> None:
    map_ = {"listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT,CLIENT:PLAINTEXT"}
    config = parse_config({**MINIMAL, **map_, **keys}).config
    sasl = config.sasl_of("CONTROLLER")
    assert sasl is not None
    with pytest.raises(ConfigError, match=message):
        sasl.login_of_node()


def test_a_tool_logs_in_as_its_file_says(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\nsasl.jaas.config={SCRAM_JAAS}\n")
    network = client_network(str(path))
    assert isinstance(network, SaslNetwork)
    assert isinstance(network.inner, TcpNetwork)
    assert network.login == Login("SCRAM-SHA-256", "node", Secret("pw-3"))
    path.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.jaas.config={SCRAM_JAAS}\n")
    with pytest.raises(ConfigError, match=r"^.*sasl\.mechanism is not set; expected PLAIN or"):
        client_network(str(path))
