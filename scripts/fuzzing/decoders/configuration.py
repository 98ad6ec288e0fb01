"""What operators write: properties, JAAS lines, access rules, users of SCRAM, stores of keys, rules for principals."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

import trustme
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    load_pem_private_key,
    pkcs12,
)
from cryptography.x509.oid import NameOID

from kraft_trio.config.jaas import PLAIN_MODULE, SCRAM_MODULE, parse_jaas
from kraft_trio.config.node_config import load_config
from kraft_trio.config.secret import Secret
from kraft_trio.config.tls_fields import TLS_KEY_OF_FIELD, TlsFields
from kraft_trio.errors import ConfigError, ProtocolError
from kraft_trio.security.acl_file import parse_acls
from kraft_trio.security.certificates import certificates_of
from kraft_trio.security.client_network import client_network
from kraft_trio.security.principal import principal_of
from kraft_trio.security.scram_credential import ScramCredential
from kraft_trio.security.scram_file import add_to_scram_file, read_scram_file
from kraft_trio.security.tls_context import client_context, server_context
from scripts.fuzzing.decoder import Decoder
from scripts.fuzzing.decoders.files import home, put

PROPERTIES = b"""# a node
node.id=1
process.roles=controller
listeners=CONTROLLER://127.0.0.1:9093,CLIENT://[::1]:9092
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:SSL,CLIENT:SASL_PLAINTEXT
controller.quorum.voters=1@localhost:9093,2@host\\u0041:9094
metadata.log.dir=/tmp/none
sasl.enabled.mechanisms=PLAIN
listener.name.client.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\
  user_alice="x";
listener.name.controller.ssl.client.auth=required
ssl.principal.mapping.rules=RULE:^CN=([^,]+).*$/$1/L,DEFAULT
super.users=User:a;User:b
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
"""
CLIENT_FILE = b"""security.protocol=SASL_PLAINTEXT
sasl.mechanism=SCRAM-SHA-256
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="a" password="b";
"""
JAAS = [
    f'{PLAIN_MODULE} required username="a\\"b" password=c user_x="y";'.encode(),
    f"{SCRAM_MODULE} REQUIRED\n username=u\tpassword='p';".encode(),
]
ACLS = b"""[[allow]]
principal = "User:a"
operations = ["READ", "WRITE"]
topic = "orders"
[[deny]]
principal = "User:*"
operations = ["ALTER"]
host = "10.0.0.9"
[[voter]]
principal = "User:node-1"
node-id = 1
directory-id = "zmFX6o0ORzqSPHaCAIvYbA"
"""
RULES = [b"DEFAULT", b"RULE:^CN=([^,]+),OU=(.*)$/$1@$2/L,DEFAULT", rb"RULE:^(.*?)\/x$/$0\//U"]


def read_properties(data: bytes) -> object:
    return load_config(put("node.properties", data))


def read_client_file(data: bytes) -> object:
    return client_network(str(put("client.properties", data)))


def scram_users() -> list[bytes]:
    path = Path(home(), "users")
    path.unlink(missing_ok=True)
    password = Secret("pencil")
    add_to_scram_file(
        str(path), [ScramCredential.of_password("alice", name, password) for name in ("SCRAM-SHA-256", "SCRAM-SHA-512")]
    )
    return [path.read_bytes()]


def read_users(data: bytes) -> object:
    path = put("users", data)
    path.chmod(0o600)
    return read_scram_file(str(path))


@cache
def certificate() -> trustme.LeafCert:
    return trustme.CA(key_type=trustme.KeyType.ECDSA).issue_cert(
        "localhost", common_name="a, b=c", key_type=trustme.KeyType.ECDSA
    )


def pems() -> list[bytes]:
    return [certificate().private_key_and_cert_chain_pem.bytes(), certificate().cert_chain_pems[0].bytes()]


def read_pem(data: bytes) -> None:
    """As the key store of a listener, and as the trust store of a client."""
    path = str(put("store.pem", data))
    store, trust = TlsFields(keystore_location=path), TlsFields(truststore_location=path)
    refusal: ConfigError | None = None
    for make in (
        lambda: (server_context(store), certificates_of(store)),
        lambda: (client_context(trust), certificates_of(trust)),
    ):
        try:
            make()
        except ConfigError as error:
            refusal = error
    if refusal is not None:
        raise refusal


@cache
def stores() -> list[bytes]:
    key = load_pem_private_key(certificate().private_key_pem.bytes(), None)
    leaf = x509.load_pem_x509_certificate(certificate().cert_chain_pems[0].bytes())
    few = BestAvailableEncryption(b"secret")
    return [
        pkcs12.serialize_key_and_certificates(b"n", key, leaf, [leaf], few),  # type: ignore[arg-type]
        pkcs12.serialize_java_truststore([pkcs12.PKCS12Certificate(leaf, b"ca")], few),
    ]


def read_pkcs12(data: bytes) -> None:
    path, password = str(put("store.p12", data)), Secret("secret")
    client_context(
        TlsFields(
            keystore_type="PKCS12",
            keystore_location=path,
            keystore_password=password,
            truststore_type="PKCS12",
            truststore_location=path,
            truststore_password=password,
        )
    )


@cache
def short_certificate() -> bytes:
    """Its subject is `CN=x`: a pattern of an operator may take long for a longer one, as in Java."""
    key = generate_private_key(SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "x")])
    now = datetime(2026, 1, 1, tzinfo=UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + timedelta(days=1))
    return builder.sign(key, SHA256()).public_bytes(Encoding.DER)


def read_rules(data: bytes) -> None:
    """The rules of a configuration, and then a certificate that they map."""
    kind = TLS_KEY_OF_FIELD["principal_mapping_rules"].kind
    principal_of(short_certificate(), kind.parse(_text(data)))


def certificates() -> list[bytes]:
    long = x509.load_pem_x509_certificate(certificate().cert_chain_pems[0].bytes())
    return [short_certificate(), long.public_bytes(Encoding.DER)]


def read_certificate(data: bytes) -> object:
    return principal_of(data, TlsFields().principal_mapping_rules)


def _text(data: bytes) -> str:
    return data.decode("latin-1")


DECODERS = (
    Decoder(
        "properties", lambda: [PROPERTIES], read_properties, (ConfigError,), memory_per_byte=2000, lines_per_byte=50_000
    ),
    Decoder("client-file", lambda: [CLIENT_FILE], read_client_file, (ConfigError,)),
    Decoder("jaas", lambda: JAAS, lambda data: parse_jaas(_text(data)), (ValueError,)),
    Decoder("acl-file", lambda: [ACLS], lambda data: parse_acls(data.decode()), (ValueError,), memory_per_byte=2000),
    Decoder("scram-users", scram_users, read_users, (ConfigError,)),
    Decoder("pem", pems, read_pem, (ConfigError,)),
    Decoder("pkcs12", stores, read_pkcs12, (ConfigError,)),
    Decoder("principal-rules", lambda: RULES, read_rules, (ValueError, ProtocolError)),
    Decoder("certificates", certificates, read_certificate, (ProtocolError,)),
)
