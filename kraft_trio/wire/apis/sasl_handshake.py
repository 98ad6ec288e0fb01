"""SaslHandshake: a client names the SASL mechanism that it will use (KIP-43, KIP-152).

After version 0, tokens would follow without a header.  It is advertised, because librdkafka looks for it, but not
served.
"""

from __future__ import annotations

from typing import Final

import attrs

from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.schema import Fields

_NEVER: Final = 2
"""No version is flexible."""


@attrs.frozen
class SaslHandshakeRequest:
    mechanism: str


@attrs.frozen
class SaslHandshakeResponse:
    """`mechanisms` are those that the listener has enabled."""

    error: ErrorCode = ErrorCode.none
    mechanisms: tuple[str, ...] = ()


def _fields_of_request(request: SaslHandshakeRequest, version: int) -> Fields:
    return {"mechanism": request.mechanism}


def _request_of_fields(fields: Fields, version: int) -> SaslHandshakeRequest:
    return SaslHandshakeRequest(fields["mechanism"])


def _fields_of_response(response: SaslHandshakeResponse, version: int) -> Fields:
    return {"error_code": response.error, "mechanisms": response.mechanisms}


def _response_of_fields(fields: Fields, version: int) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(fields["error_code"], tuple(fields["mechanisms"]))


_SCHEMA: Final = """\
request
    mechanism: string
response
    error_code: error_code
    mechanisms: [string]
"""

SASL_HANDSHAKE: Final = Api(
    key=17,
    name="SaslHandshake",
    schema=_SCHEMA,
    min_version=1,
    max_version=1,
    flexible_version=_NEVER,
    fields_of_request=_fields_of_request,
    request_of_fields=_request_of_fields,
    fields_of_response=_fields_of_response,
    response_of_fields=_response_of_fields,
    error_response=lambda error, _message: SaslHandshakeResponse(error),
    advertised_min_version=0,
)
