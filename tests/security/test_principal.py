"""The principal that a certificate stands for."""

from __future__ import annotations

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from kraft_trio.config.tls_fields import TLS_KEY_OF_FIELD
from kraft_trio.errors import ProtocolError
from kraft_trio.security.principal import distinguished_name, principal_of
from tests.support.certificates import authority, issue

CN, ORGANIZATION, COUNTRY = NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME, NameOID.COUNTRY_NAME


def name_of(*parts: tuple[x509.ObjectIdentifier, str]) -> str:
    return distinguished_name(x509.Name([x509.NameAttribute(oid, value) for oid, value in parts]))


def test_a_name_is_written_like_javas() -> None:
    assert name_of((COUNTRY, "CH"), (ORGANIZATION, "Ex, Inc."), (CN, "node 1")) == "CN=node 1,O=Ex\\, Inc.,C=CH"
    assert name_of((CN, ' "x+y" ')) == 'CN=\\ \\"x\\+y\\"\\ '
    assert name_of((NameOID.EMAIL_ADDRESS, "a@b"), (CN, "x")) == "CN=x,1.2.840.113549.1.9.1=#1603614062"


@pytest.mark.parametrize(
    ("rules", "principal"),
    [
        ("RULE:^CN=([^,]+),.*$/$1/", "User:Node-1"),
        ("RULE:^CN=(.*?),.*$/$1@x/L, DEFAULT", "User:node-1@x"),
        ("RULE:^OU=none.*$/$1/,RULE:^CN=([^,]+).*$/$1/U", "User:NODE-1"),
    ],
)
def test_the_first_rule_that_matches_counts(rules: str, principal: str) -> None:
    certificate = x509.load_pem_x509_certificate(issue(authority(), "Node-1").cert_chain_pems[0].bytes())
    der = certificate.public_bytes(Encoding.DER)
    kind = TLS_KEY_OF_FIELD["principal_mapping_rules"].kind
    assert principal_of(der, kind.parse(rules)) == principal
    assert principal_of(der, kind.parse("DEFAULT")) == f"User:{distinguished_name(certificate.subject)}"
    with pytest.raises(ProtocolError, match=r"no rule of ssl.principal.mapping.rules matches 'CN=Node-1,"):
        principal_of(der, kind.parse("RULE:^OU=.*$/x/"))
    with pytest.raises(ProtocolError, match="the subject of the certificate cannot be read"):
        principal_of(der[:-1], kind.parse("DEFAULT"))
