"""SaslHandshake: a client names the SASL mechanism that it will use (KIP-43, KIP-152).

After version 0, tokens would follow without a header.  It is advertised, because librdkafka looks for it, but not
served.
"""

from __future__ import annotations

from typing import Final

import attrs

from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.fields import Error, String

_NEVER: Final = 2
"""No version is flexible."""


@attrs.frozen
class SaslHandshakeRequest:
    mechanism: String


@attrs.frozen
class SaslHandshakeResponse:
    """`mechanisms` are those that the listener has enabled."""

    error: Error = ErrorCode.none
    mechanisms: tuple[String, ...] = ()


SASL_HANDSHAKE: Final = Api(
    key=17,
    name="SaslHandshake",
    request=SaslHandshakeRequest,
    response=SaslHandshakeResponse,
    min_version=1,
    max_version=1,
    flexible_version=_NEVER,
    error_response=lambda error, _message: SaslHandshakeResponse(error),
    advertised_min_version=0,
)
