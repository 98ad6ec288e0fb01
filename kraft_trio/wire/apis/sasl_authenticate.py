"""SaslAuthenticate: one token of a SASL exchange in each direction (KIP-152, KIP-368)."""

from __future__ import annotations

from typing import Final

import attrs

from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.schema import Fields


@attrs.frozen
class SaslAuthenticateRequest:
    """`auth_bytes` may be a password."""

    auth_bytes: bytes = attrs.field(repr=False)


@attrs.frozen
class SaslAuthenticateResponse:
    """`session_lifetime_ms` is how soon the client must authenticate again; 0: never."""

    error: ErrorCode = ErrorCode.none
    error_message: str | None = None
    auth_bytes: bytes = attrs.field(default=b"", repr=False)
    session_lifetime_ms: int = 0


def _fields_of_request(request: SaslAuthenticateRequest, version: int) -> Fields:
    return {"auth_bytes": request.auth_bytes}


def _request_of_fields(fields: Fields, version: int) -> SaslAuthenticateRequest:
    return SaslAuthenticateRequest(fields["auth_bytes"])


def _fields_of_response(response: SaslAuthenticateResponse, version: int) -> Fields:
    return {
        "error_code": response.error,
        "error_message": response.error_message,
        "auth_bytes": response.auth_bytes,
        "session_lifetime_ms": response.session_lifetime_ms,
    }


def _response_of_fields(fields: Fields, version: int) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        error=fields["error_code"],
        error_message=fields["error_message"],
        auth_bytes=fields["auth_bytes"],
        session_lifetime_ms=fields.get("session_lifetime_ms", 0),
    )


_SCHEMA: Final = """\
request
    auth_bytes: records
response
    error_code: error_code
    error_message: string?
    auth_bytes: records
    session_lifetime_ms: int64 1+
"""

SASL_AUTHENTICATE: Final = Api(
    key=36,
    name="SaslAuthenticate",
    schema=_SCHEMA,
    min_version=0,
    max_version=2,
    flexible_version=2,
    fields_of_request=_fields_of_request,
    request_of_fields=_request_of_fields,
    fields_of_response=_fields_of_response,
    response_of_fields=_response_of_fields,
    error_response=SaslAuthenticateResponse,
)
