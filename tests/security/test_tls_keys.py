"""The `ssl.` keys: what is refused and in which words, and that no secret is ever shown."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)

from kraft_trio.config import load_config, parse_config
from kraft_trio.config.secret import SecretText
from kraft_trio.config.tls_fields import TLS_KEY_OF_FIELD, TlsFields
from kraft_trio.errors import ConfigError
from kraft_trio.security.certificates import certificates_of
from kraft_trio.security.client_network import client_network
from kraft_trio.security.tls_context import client_context, server_context
from tests.support.certificates import authority, issue, tls_keys

NODE = {
    "node.id": "1",
    "listeners": "CONTROLLER://localhost:9093,CLIENT://localhost:9094",
    "controller.quorum.bootstrap.servers": "localhost:9093",
    "metadata.log.dir": "/var/lib/kraft",
    "listener.security.protocol.map": "CONTROLLER:SSL,CLIENT:PLAINTEXT",
}
PASSWORD = "open sesame"


def fields(keys: dict[str, str]) -> TlsFields:
    return parse_config({**NODE, **keys}).config.tls


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("ssl.keystore.type", "JKS", "ssl.keystore.type=JKS; expected PEM or PKCS12"),
        ("ssl.client.auth", "maybe", "ssl.client.auth=maybe; expected none or requested or required"),
        ("ssl.enabled.protocols", "TLSv1.1", "ssl.enabled.protocols=TLSv1.1: 'TLSv1.1': older protocols are not safe"),
        ("ssl.principal.mapping.rules", "RULE:x", "ssl.principal.mapping.rules=RULE:x: 'RULE:x' is neither DEFAULT"),
        ("ssl.principal.mapping.rules", "RULE:(/x/", "the pattern '(' is not a regular expression"),
        ("ssl.endpoint.identification.algorithm", "ldaps", "=ldaps; expected https or an empty text"),
        ("listener.name.controller.ssl.client.auth", "x", "listener.name.controller.ssl.client.auth=x; expected none"),
    ],
)
def test_a_refusal_names_key_and_value(key: str, value: str, message: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        fields({key: value})
    assert message in str(refusal.value)


@pytest.mark.parametrize("make", [server_context, client_context])
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ssl.keystore.location": "/none"}, "ssl.keystore.location=/none: No such file or directory"),
        ({"ssl.truststore.location": "/none"}, "ssl.truststore.location=/none: No such file or directory"),
        ({"ssl.cipher.suites": "RC4-SHA"}, "ssl.cipher.suites=RC4-SHA: 'RC4-SHA' is unknown or not safe"),
        ({"ssl.enabled.protocols": ""}, "ssl.enabled.protocols=: at least one version is needed"),
        ({"ssl.keystore.type": "PKCS12", "ssl.keystore.password": PASSWORD}, "or ssl.keystore.password does not fit"),
        ({"ssl.keystore.key": PASSWORD}, "ssl.keystore.certificate.chain=: a private key and its certificate chain"),
        (
            {"ssl.keystore.key": PASSWORD, "ssl.keystore.certificate.chain": "no PEM"},
            "ssl.keystore.certificate.chain=...: no private key and no certificate in PEM in it",
        ),
    ],
)
def test_a_store_that_cannot_be_used_is_refused(
    make: Callable[[TlsFields], object], changes: dict[str, str], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as refusal:
        make(fields({**tls_keys(tmp_path, "node"), **changes}))
    assert message in str(refusal.value)
    assert PASSWORD not in str(refusal.value)


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ("key", "no certificate in PEM in it; expected the private key and then its certificate chain"),
        ("chain", "no private key in PEM in it; expected"),
        ("", "no private key and no certificate in PEM in it; expected"),
        ("encrypted chain", "the private key is encrypted, and ssl.key.password does not fit: "),
        ("another chain", "key values mismatch"),
        ("broken chain", "the private key or the certificates cannot be read: "),
    ],
)
def test_what_a_key_store_lacks_is_named(parts: str, reason: str, tmp_path: Path) -> None:
    certificate = issue(authority(), "node")
    key = load_pem_private_key(certificate.private_key_pem.bytes(), None)
    encrypted = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"another"))
    content = {
        "key": certificate.private_key_pem.bytes(),
        "chain": certificate.cert_chain_pems[0].bytes(),
        "encrypted": encrypted,
        "another": issue(authority(), "node").private_key_pem.bytes(),
        "broken": b"-----BEGIN PRIVATE KEY-----\n====\n-----END PRIVATE KEY-----\n",
    }
    store = tmp_path / "node.pem"
    store.write_bytes(b"".join(content[part] for part in parts.split()))
    with pytest.raises(ConfigError) as refusal:
        client_context(fields({"ssl.keystore.location": str(store), "ssl.key.password": PASSWORD}))
    assert str(refusal.value).startswith(f"ssl.keystore.location={store}: {reason}")
    assert PASSWORD not in str(refusal.value)


def test_a_listener_needs_a_key_store_and_authorities_for_its_clients() -> None:
    with pytest.raises(ConfigError, match=r"ssl.keystore.location=: a TLS listener needs a private key"):
        server_context(TlsFields())
    certificate = issue(authority(), "node")
    chain = "".join(pem.bytes().decode() for pem in certificate.cert_chain_pems)
    inline = {
        "ssl.keystore.key": certificate.private_key_pem.bytes().decode(),
        "ssl.keystore.certificate.chain": chain,
    }
    server_context(fields(inline))
    with pytest.raises(ConfigError, match=r"ssl.truststore.location=: ssl.client.auth=requested needs authorities"):
        server_context(fields({**inline, "ssl.client.auth": "requested"}))


def test_a_pkcs12_store_has_the_same_certificate(tmp_path: Path) -> None:
    certificate = issue(authority(), "node")
    leaf = x509.load_pem_x509_certificate(certificate.cert_chain_pems[0].bytes())
    key = load_pem_private_key(certificate.private_key_pem.bytes(), None)
    encrypted = BestAvailableEncryption(PASSWORD.encode())
    store = tmp_path / "node.p12"
    store.write_bytes(pkcs12.serialize_key_and_certificates(b"node", key, leaf, None, encrypted))  # type: ignore[arg-type]
    tls = fields(
        {"ssl.keystore.type": "PKCS12", "ssl.keystore.location": str(store), "ssl.keystore.password": PASSWORD}
    )
    server_context(tls)
    [shown] = certificates_of(tls)
    assert (shown.store, shown.serial) == ("key-store", f"{leaf.serial_number:x}")
    assert shown.expires_s == int(leaf.not_valid_after_utc.timestamp())


KEY_OF_SECP112R1 = base64.b64decode(
    "MIGLAgEDMIGFBgkqhkiG9w0BBwGgeAR2MHQwcgYJKoZIhvcNAQcBoGUEYzBhMF8GCyqGSIb3DQEMCgEBoFAwTgIBADAQBgcqhkjOPQIBBgUrgQQA"
    "BgQ3MDUCAQEEDo86QPkyTinR0t0hF8h5oSADHgAEooPt4DFwlmexHZ4Z0a3ITx5HLwY1CBeANVS/dA=="
)
"""A PKCS12 store of OpenSSL's, without a password, whose key is on a curve that `cryptography` does not know."""


@pytest.mark.parametrize("store", ["keystore", "truststore"])
def test_a_pkcs12_store_with_a_key_of_an_unknown_kind_is_refused(store: str, tmp_path: Path) -> None:
    file = tmp_path / "strange.p12"
    file.write_bytes(KEY_OF_SECP112R1)
    keys = {**tls_keys(tmp_path, "node"), f"ssl.{store}.type": "PKCS12", f"ssl.{store}.location": str(file)}
    with pytest.raises(ConfigError, match=rf"ssl.{store}.location=.*strange.p12: no PKCS12 store"):
        client_context(fields(keys))


def test_no_secret_is_shown(tmp_path: Path) -> None:
    names = [key.name for key in TLS_KEY_OF_FIELD.values() if isinstance(key.kind, SecretText)]
    assert len(names) == 4
    loaded = parse_config({**NODE, **dict.fromkeys(names, PASSWORD), f"listener.name.client.{names[0]}": PASSWORD})
    assert PASSWORD not in repr(loaded) + str(loaded.config.tls) + str(loaded.config.listener_tls)
    assert loaded.config.tls.key_password.value == PASSWORD
    file = tmp_path / "node.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in NODE.items()) + 2 * f"{names[0]}={PASSWORD}\n")
    (warning,) = load_config(file).warnings
    assert warning == f"{names[0]}: given more than once; the last value is used"
    with pytest.raises(ConfigError, match=r"^gssapi.sasl.jaas.config: kraft does not support") as refusal:
        parse_config({**NODE, "gssapi.sasl.jaas.config": PASSWORD})
    assert PASSWORD not in str(refusal.value)


def test_a_listener_may_have_keys_of_its_own() -> None:
    keys = {"ssl.client.auth": "required", "listener.name.client.ssl.client.auth": "none"}
    config = parse_config({**NODE, **keys, "listener.security.protocol.map": "CONTROLLER:SSL,CLIENT:SSL"}).config
    found = [config.tls_of(name) for name in ("CONTROLLER", "CLIENT")]
    assert [tls.client_auth for tls in found if tls is not None] == ["required", "none"]


def test_keys_without_a_listener_that_uses_them_are_told() -> None:
    plain = {**NODE, "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,CLIENT:PLAINTEXT"}
    plain["ssl.client.auth"] = "required"
    assert "secures no listener with SSL" in parse_config(plain).warnings[0]
    assert parse_config({**NODE, "ssl.client.auth": "required"}).warnings == ()


@pytest.mark.parametrize(
    "map_", ["CONTROLER:SSL,CLIENT:SSL", "CONTROLLER:SSL,CLIENTS:SSL", "CONTROLLER:SSL", "SSL:SSL,CLIENT:SSL"]
)
def test_a_map_without_one_of_the_listeners_is_refused(map_: str) -> None:
    """Otherwise, a misspelt name would leave that listener open to everybody."""
    missing = "CLIENT" if map_.startswith("CONTROLLER:") else "CONTROLLER"
    reason = f"^listener.security.protocol.map={map_}: the listener {missing} is missing; expected {missing}:PROTOCOL$"
    with pytest.raises(ConfigError, match=reason):
        parse_config({**NODE, "listener.security.protocol.map": map_})


def test_a_map_need_not_name_listeners_that_are_called_like_their_protocols() -> None:
    listeners = {"listeners": "CONTROLLER://a:9093,SASL_SSL://a:9092"}
    config = parse_config({**NODE, **listeners, "listener.security.protocol.map": "CONTROLLER:SSL"}).config
    assert config.security_protocol_of("SASL_SSL") == "SASL_SSL"
    observer = {"process.roles": "broker", "listeners": "CLIENT://a:9092"}
    with pytest.raises(ConfigError, match="the listener CONTROLLER is missing"):
        parse_config({**NODE, **observer, "listener.security.protocol.map": "CLIENT:PLAINTEXT"})


@pytest.mark.parametrize("key", ["ssl.client.auth", "sasl.enabled.mechanisms"])
def test_a_security_key_of_an_unknown_listener_is_refused(key: str) -> None:
    name, value = f"listener.name.controler.{key}", "required" if key.startswith("ssl") else "PLAIN"
    reason = f"^{name}: no listener is called CONTROLER; expected one of CONTROLLER, CLIENT, HTTPS$"
    with pytest.raises(ConfigError, match=reason):
        parse_config({**NODE, name: value})
    parse_config({**NODE, name.replace("controler", "controller"): value})
    parse_config({**NODE, name.replace("controler", "https"): value})


def test_a_clients_file_names_an_unknown_protocol(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=KERBEROS\n")
    with pytest.raises(ConfigError, match=rf"^{file}: security.protocol=KERBEROS; expected PLAINTEXT or SSL"):
        client_network(str(file))
