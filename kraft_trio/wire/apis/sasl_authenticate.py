"""SaslAuthenticate: one token of a SASL exchange in each direction (KIP-152, KIP-368)."""

from __future__ import annotations

from typing import Annotated, Final

import attrs

from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.fields import Error, Int64, Place, Records, String


@attrs.frozen
class SaslAuthenticateRequest:
    """`auth_bytes` may be a password."""

    auth_bytes: Records = attrs.field(repr=False)


@attrs.frozen
class SaslAuthenticateResponse:
    """`session_lifetime_ms` is how soon the client must authenticate again; 0: never."""

    error: Error = ErrorCode.none
    error_message: String | None = None
    auth_bytes: Records = attrs.field(default=b"", repr=False)
    session_lifetime_ms: Annotated[Int64, Place(since=1)] = 0


SASL_AUTHENTICATE: Final = Api(
    key=36,
    name="SaslAuthenticate",
    request=SaslAuthenticateRequest,
    response=SaslAuthenticateResponse,
    min_version=0,
    max_version=2,
    flexible_version=2,
    error_response=SaslAuthenticateResponse,
)
