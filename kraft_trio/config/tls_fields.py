"""The configuration keys of TLS, with Kafka's names.  Each may also be set for one listener."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import attrs

from kraft_trio.config.key import KEY, Key, ListOf, Text, config_key
from kraft_trio.config.secret import NO_SECRET, Secret, SecretText

PROTOCOLS: Final = ("TLSv1.2", "TLSv1.3")
_RULE: Final = re.compile(r"RULE:(?P<pattern>(?:[^/\\]|\\.)*)/(?P<replacement>(?:[^/\\]|\\.)*)/(?P<case>[LU]?)")


@attrs.frozen
class PrincipalRule:
    """One rule of `ssl.principal.mapping.rules`.  DEFAULT is the rule that matches every name and keeps it."""

    pattern: str
    replacement: str
    case: str = ""
    """`L` for lower case, `U` for upper case, or empty."""

    def __str__(self) -> str:
        return "DEFAULT" if self == DEFAULT_RULE else f"RULE:{self.pattern}/{self.replacement}/{self.case}"


DEFAULT_RULE: Final = PrincipalRule("(.*)", "$1")


def _parse_rules(text: str) -> tuple[PrincipalRule, ...]:
    rules, at = [], 0
    while at < len(text):
        match = _RULE.match(text, at)
        if match is not None:
            rules.append(PrincipalRule(match["pattern"], match["replacement"], match["case"]))
            _compile(rules[-1].pattern)
            at = match.end()
        elif text.startswith("DEFAULT", at):
            rules.append(DEFAULT_RULE)
            at += len("DEFAULT")
        else:
            raise ValueError(f"{text[at:]!r} is neither DEFAULT nor RULE:pattern/replacement/[L|U]")
        rest = text[at:].lstrip()
        if rest and not rest.startswith(","):
            raise ValueError(f"a comma is missing before {rest!r}")
        at = len(text) - len(rest[1:].lstrip()) if rest else len(text)
    return tuple(rules)


def _compile(pattern: str) -> None:
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"the pattern {pattern!r} is not a regular expression: {error}") from None


def _one_of(*allowed: str) -> Text:
    def read(text: str) -> str:
        for value in allowed:
            if text.lower() == value.lower():
                return value
        raise ValueError

    return Text(" or ".join(value or "an empty text" for value in allowed), read)


def _parse_protocol(text: str) -> str:
    if text not in PROTOCOLS:
        raise ValueError(f"{text!r}: older protocols are not safe" if text.startswith(("TLSv1", "SSL")) else "")
    return text


_PEM: Final = Text("certificates in PEM", str)
_PATH: Final = Text("the path of a file", str)
_STORE_TYPE: Final = _one_of("PEM", "PKCS12")


@attrs.frozen(kw_only=True)
class TlsFields:
    """One field for each key."""

    keystore_type: str = config_key(
        "ssl.keystore.type", _STORE_TYPE, "The format of the key store (Kafka's default is JKS).", default="PEM"
    )
    keystore_location: str = config_key(
        "ssl.keystore.location", _PATH, "A file with this node's private key and certificate chain.", default=""
    )
    keystore_password: Secret = config_key(
        "ssl.keystore.password", SecretText("the password"), "The password of a PKCS12 key store.", default=NO_SECRET
    )
    keystore_key: Secret = config_key(
        "ssl.keystore.key", SecretText("a private key in PEM"), "The private key, instead of a file.", default=NO_SECRET
    )
    keystore_certificate_chain: str = config_key(
        "ssl.keystore.certificate.chain", _PEM, "The certificate chain, instead of a file.", default=""
    )
    key_password: Secret = config_key(
        "ssl.key.password", SecretText("the password"), "The password of the private key.", default=NO_SECRET
    )
    truststore_type: str = config_key(
        "ssl.truststore.type", _STORE_TYPE, "The format of the trust store (Kafka's default is JKS).", default="PEM"
    )
    truststore_location: str = config_key(
        "ssl.truststore.location",
        _PATH,
        "A file with the authorities whose certificates are accepted; by default the system's.",
        default="",
    )
    truststore_password: Secret = config_key(
        "ssl.truststore.password",
        SecretText("the password"),
        "The password of a PKCS12 trust store.",
        default=NO_SECRET,
    )
    truststore_certificates: str = config_key(
        "ssl.truststore.certificates", _PEM, "The authorities, instead of a file.", default=""
    )
    client_auth: str = config_key(
        "ssl.client.auth",
        _one_of("none", "requested", "required"),
        "Whether a listener asks clients for a certificate.",
        default="none",
    )
    endpoint_identification_algorithm: str = config_key(
        "ssl.endpoint.identification.algorithm",
        _one_of("https", ""),
        "Whether a server's certificate must name its host; empty: no.",
        default="https",
    )
    enabled_protocols: tuple[str, ...] = config_key(
        "ssl.enabled.protocols",
        ListOf(" and ".join(PROTOCOLS), _parse_protocol),
        "The versions of TLS.",
        default=PROTOCOLS,
    )
    cipher_suites: tuple[str, ...] = config_key(
        "ssl.cipher.suites",
        ListOf("names of cipher suites of TLS 1.2, separated by commas", str),
        "The cipher suites of TLS 1.2; by default those of AES-GCM and ChaCha20 with ECDHE.",
        default=(),
    )
    principal_mapping_rules: tuple[PrincipalRule, ...] = config_key(
        "ssl.principal.mapping.rules",
        Text(
            "DEFAULT or RULE:pattern/replacement/[L|U], separated by commas",
            _parse_rules,
            lambda rules: ",".join(map(str, rules)),
            tuple,
        ),
        "How a certificate's distinguished name becomes a principal; the first rule that matches counts.",
        default=(DEFAULT_RULE,),
    )


TLS_KEY_OF_FIELD: Mapping[str, Key] = {field.name: field.metadata[KEY] for field in attrs.fields(TlsFields)}
"""The key of each field of `TlsFields`."""

TLS_KEYS: tuple[tuple[Key, str], ...] = tuple(
    (field.metadata[KEY], field.metadata[KEY].kind.format(field.default)) for field in attrs.fields(TlsFields)
)
"""Each key with the text of its default."""
