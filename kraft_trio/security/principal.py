"""Who the peer of a connection is, by its certificate."""

from __future__ import annotations

import re
from collections.abc import Sequence

from cryptography import x509
from cryptography.x509.oid import NameOID

from kraft_trio.config.tls_fields import PrincipalRule
from kraft_trio.errors import ProtocolError

_NAMES = {
    NameOID.COMMON_NAME: "CN",
    NameOID.LOCALITY_NAME: "L",
    NameOID.STATE_OR_PROVINCE_NAME: "ST",
    NameOID.ORGANIZATION_NAME: "O",
    NameOID.ORGANIZATIONAL_UNIT_NAME: "OU",
    NameOID.COUNTRY_NAME: "C",
    NameOID.STREET_ADDRESS: "STREET",
    NameOID.DOMAIN_COMPONENT: "DC",
    NameOID.USER_ID: "UID",
}
"""The attributes that RFC 2253 names.  Java writes any other as its number and the hexadecimal DER of its value."""


def principal_of(certificate: bytes, rules: Sequence[PrincipalRule]) -> str:
    """`User:` and the name that the first matching rule makes of the certificate's subject.

    Raises ProtocolError if no rule matches, or if the certificate cannot be read.
    """
    try:
        name = distinguished_name(x509.load_der_x509_certificate(certificate).subject)
    except (ValueError, TypeError, x509.InvalidVersion) as error:  # TypeError: a name's value of another type
        raise ProtocolError(f"the subject of the certificate cannot be read: {error}") from error
    for rule in rules:
        match = re.fullmatch(rule.pattern, name)
        if match is not None:
            try:
                return f"User:{_mapped(match, rule)}"
            except IndexError:
                raise ProtocolError(f"{rule} of ssl.principal.mapping.rules names a group that it lacks") from None
    raise ProtocolError(f"no rule of ssl.principal.mapping.rules matches {name!r}")


def _mapped(match: re.Match[str], rule: PrincipalRule) -> str:
    name = re.sub(r"\$(\d)", lambda group: match[int(group[1])] or "", rule.replacement)
    return name.lower() if rule.case == "L" else name.upper() if rule.case == "U" else name


def distinguished_name(subject: x509.Name) -> str:
    """The name as RFC 2253 writes it, like Java's X500Principal: the most specific part first, joined by commas."""
    return ",".join("+".join(_written(attribute) for attribute in part) for part in reversed(subject.rdns))


def _written(attribute: x509.NameAttribute[str | bytes]) -> str:
    name = _NAMES.get(attribute.oid)
    if name is not None and isinstance(attribute.value, str):
        return f"{name}={_escaped(attribute.value)}"
    value = attribute.value.encode() if isinstance(attribute.value, str) else attribute.value
    tag = attribute._type.value
    return f"{attribute.oid.dotted_string}=#{bytes([tag, *_der_length(len(value))]).hex()}{value.hex()}"


def _der_length(length: int) -> bytes:
    if length < 128:
        return bytes([length])
    encoded = length.to_bytes((length.bit_length() + 7) // 8, "big")
    return bytes([128 + len(encoded)]) + encoded


def _escaped(value: str) -> str:
    text = re.sub(r'([,=+"#\\<>;])', r"\\\1", value)
    if text.startswith(" "):
        text = "\\" + text
    if text.endswith(" ") and len(text) > 1:
        text = text[:-1] + "\\ "
    return text
