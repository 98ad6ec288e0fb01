"""`--add-scram`: a user of SCRAM, in the syntax of Kafka's `kafka-storage format`."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from typing import Final

from kraft_trio.config.sasl_fields import SCRAM_MECHANISMS
from kraft_trio.config.secret import Secret
from kraft_trio.errors import ConfigError
from kraft_trio.security.scram_credential import MIN_ITERATIONS, ScramCredential

SYNTAX: Final = "SCRAM-SHA-256=[name=NAME,password=PASSWORD]"
_CREDENTIAL: Final = re.compile(rf"(?P<mechanism>{'|'.join(SCRAM_MECHANISMS)})=\[(?P<fields>.*)\]", re.DOTALL)
_FIELD: Final = re.compile(r'\s*(?P<name>\w+)=(?:"(?P<quoted>[^"]*)"|(?P<bare>[^,"]*))\s*(?:,|$)', re.DOTALL)
_FIELDS: Final = ("name", "password", "saltedpassword", "salt", "iterations")


def parse_scram(texts: Sequence[str]) -> tuple[ScramCredential, ...]:
    """Read the values of the option.  Raises ConfigError, which shows no password."""
    try:
        return tuple(map(_parse, texts))
    except ValueError as error:
        raise ConfigError(f"--add-scram: {error}; expected {SYNTAX}") from None


def _parse(text: str) -> ScramCredential:
    match = _CREDENTIAL.fullmatch(text)
    if match is None:
        raise ValueError("no mechanism and its fields in brackets")
    mechanism, fields = match["mechanism"], _fields(match["fields"])
    if not fields.keys() <= set(_FIELDS):
        # It may be a part of a password with a comma, and so is not shown.
        raise ValueError(f"a field is none of {', '.join(_FIELDS)}")
    if ("password" in fields) == ("saltedpassword" in fields):
        raise ValueError("either password or saltedpassword is needed")
    name, salt = fields.get("name", ""), _decoded(fields, "salt")
    iterations = fields.get("iterations", str(MIN_ITERATIONS))
    if re.fullmatch(r"[0-9]{1,9}", iterations) is None:
        raise ValueError("iterations is not a number")
    if "password" in fields:
        password = Secret(fields["password"])
        return ScramCredential.of_password(name, mechanism, password, salt=salt, iterations=int(iterations))
    salted = _decoded(fields, "saltedpassword")
    if salt is None or salted is None:
        raise ValueError("saltedpassword needs salt")
    return ScramCredential.of_salted_password(name, mechanism, salted, salt=salt, iterations=int(iterations))


def _fields(text: str) -> Mapping[str, str]:
    fields: dict[str, str] = {}
    at = 0
    while at < len(text):
        match = _FIELD.match(text, at)
        if match is None or match["name"] in fields:
            raise ValueError(f"the fields cannot be read after {list(fields)[-1] if fields else 'the bracket'}")
        fields[match["name"]] = match["bare"] if match["quoted"] is None else match["quoted"]
        at = match.end()
    return fields


def _decoded(fields: Mapping[str, str], name: str) -> bytes | None:
    if name not in fields:
        return None
    try:
        return base64.b64decode(fields[name], validate=True)
    except ValueError:
        raise ValueError(f"{name} is not base64") from None
