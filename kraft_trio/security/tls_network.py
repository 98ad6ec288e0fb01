"""A network whose connections, and those listeners that ask for it, use TLS."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping

import attrs
import trio

from kraft_trio.errors import NetworkError
from kraft_trio.protocol.types import Endpoint
from kraft_trio.wire.network import ImmediateStream, Listener, Network
from kraft_trio.wire.tls_stream import TlsStream

CurrentContext = Callable[[], ssl.SSLContext]
"""Returns the context of the newest certificates."""


@attrs.frozen
class TlsNetwork:
    """Implements Network over another one."""

    inner: Network
    connecting: CurrentContext | None
    """For connections to others; None if they have no TLS."""
    listening: Mapping[Endpoint, CurrentContext]
    """For each endpoint whose listener has TLS."""
    _names: dict[str, str] = attrs.field(factory=dict, init=False)
    """The host name of each address that `addresses` has returned: certificates have names rather than addresses."""

    async def connect(self, endpoint: Endpoint) -> ImmediateStream:
        stream = await self.inner.connect(endpoint)
        if self.connecting is None:
            return stream
        try:
            secured = TlsStream(stream, self.connecting(), self._names.get(endpoint.host, endpoint.host))
            await secured.start()
        except BaseException as error:
            await trio.aclose_forcefully(stream)
            if isinstance(error, trio.BrokenResourceError):
                raise NetworkError(str(error)) from error
            if isinstance(error, ValueError):  # No certificate can have such a name.
                raise NetworkError(f"cannot connect: {endpoint.host!r}: {error}") from error
            raise
        return secured

    async def addresses(self, host: str) -> tuple[str, ...]:
        found = await self.inner.addresses(host)
        self._names.update(dict.fromkeys(found, host))
        return found

    async def listen(self, endpoint: Endpoint) -> Listener:
        listener = await self.inner.listen(endpoint)
        current = self.listening.get(endpoint)
        return listener if current is None else _TlsListener(listener, current)


@attrs.frozen
class _TlsListener:
    """The handshake is left to the task that serves the connection, so that a slow peer holds up no other."""

    inner: Listener
    current: CurrentContext

    @property
    def endpoint(self) -> Endpoint:
        return self.inner.endpoint

    async def accept(self) -> ImmediateStream:
        return TlsStream(await self.inner.accept(), self.current())

    async def aclose(self) -> None:
        await self.inner.aclose()
