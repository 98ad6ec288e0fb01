"""TLS over another stream, with OpenSSL's encryption in memory and no task of its own."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import trio

from kraft_trio.wire.network import ImmediateStream

_RECORD_BYTES: Final = 16 * 1024
"""The most plaintext that one TLS record carries."""
_RECEIVE_BYTES: Final = 64 * 1024
_ENCRYPTED_AT_ONCE: Final = 4 * _RECORD_BYTES
"""So much plaintext is encrypted before the inner stream is asked whether it takes any."""


class TlsStream(ImmediateStream):
    """Owns the inner stream.  One task may send and one may receive at a time.

    The first call that waits does the handshake, unless `start` did.  A cancelled call loses nothing; the next one
    continues it.  `send_now` before the handshake raises trio.BrokenResourceError.
    """

    def __init__(self, inner: ImmediateStream, context: ssl.SSLContext, server_hostname: str | None = None) -> None:
        """Be the client if there is a `server_hostname`, which the peer's certificate may have to name."""
        self._inner = inner
        self.peer_host = inner.peer_host
        self._received, self._encrypted = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._received, self._encrypted, server_side=server_hostname is None, server_hostname=server_hostname
        )
        self._unsent = memoryview(b"")
        """Encrypted bytes that the inner stream has not taken yet."""
        self._is_owed = False
        """Whether `_unsent` has a byte of plaintext that `send_now` has not reported as taken."""
        self._is_started = False
        self._may_have_more = False
        """Whether bytes may be readable without receiving any."""

    async def start(self, take_turn: Callable[[], Awaitable[object]] | None = None) -> None:
        if self._is_started:
            return
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._flush()
                if not await self._receive():
                    raise trio.BrokenResourceError("the peer closed the connection in the TLS handshake") from None
                if take_turn is not None:
                    await take_turn()
            except (ssl.SSLError, ssl.CertificateError) as error:
                self._tell_peer()
                raise trio.BrokenResourceError(f"TLS handshake failed: {reason_of(error)}") from error
            else:
                with suppress(trio.BrokenResourceError):  # What the peer sent before it closed can still be received.
                    await self._flush()
                self._is_started = self._may_have_more = True
                return

    def peer_certificate(self) -> bytes | None:
        return self._tls.getpeercert(binary_form=True) if self._is_started else None

    @property
    def protocol(self) -> str | None:
        """The version of TLS, such as `TLSv1.3`; None before the handshake."""
        return self._tls.version()

    def send_now(self, *parts: bytes | memoryview) -> int:
        """Encrypt and send as much as there is room for.

        What is encrypted must be sent.  So while the inner stream has not taken it all, the last byte of its plaintext
        counts as not sent.  The caller waits for room then and sends the rest, which begins with that byte.
        """
        if not self._is_started:
            raise trio.BrokenResourceError("the TLS handshake is not done")
        if self._unsent and not self._send_unsent():
            return 0
        if len(parts) == 1 and not self._is_owed and 0 < (size := len(parts[0])) <= _RECORD_BYTES:
            self._write(parts[0])
            encrypted = self._encrypted.read()
            sent = self._inner.send_now(encrypted)
            if sent == len(encrypted):
                return size
            self._unsent = memoryview(encrypted)[sent:]
            self._is_owed = not self._send_unsent()
            return size - self._is_owed
        skipped, self._is_owed = int(self._is_owed), False
        sent = skipped
        for part in parts:
            with memoryview(part) as view:
                at, skipped = min(skipped, len(view)), max(0, skipped - len(view))
                while at < len(view):
                    piece = view[at : at + _ENCRYPTED_AT_ONCE]
                    self._write(piece)
                    at += len(piece)
                    sent += len(piece)
                    if self._encrypted.pending >= _ENCRYPTED_AT_ONCE and not self._send_encrypted():
                        self._is_owed = True
                        return sent - 1
        if self._send_encrypted() or not sent:
            return sent
        self._is_owed = True
        return sent - 1

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send everything.  After a cancelled send the stream cannot be used any more, as a part may be encrypted."""
        await trio.lowlevel.checkpoint_if_cancelled()
        await self.start()
        with memoryview(data) as view:
            sent = self.send_now(view)
            while sent < len(view):
                await self._inner.wait_send_all_might_not_block()
                sent += self.send_now(view[sent:])

    async def wait_send_all_might_not_block(self) -> None:
        await self._inner.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Receive up to `max_bytes`.  Returns b"" after the peer has closed its side, with or without saying so."""
        await self._started_or_checkpoint()
        while True:
            if self._may_have_more:
                received = self._read(max_bytes or _RECEIVE_BYTES)
                if received is not None:
                    return received
            if not await self._receive():
                return b""

    async def receive_into(self, buffer: memoryview) -> int:
        """Receive into the buffer.  Returns the number of bytes, 0 after the peer has closed."""
        await trio.lowlevel.checkpoint_if_cancelled()
        await self.start()
        while True:
            size = 0
            try:
                while size < len(buffer):
                    read = int(self._tls.read(len(buffer) - size, buffer[size:]))
                    if not read:
                        return size
                    size += read
            except ssl.SSLWantReadError:
                self._tell_peer()
            except ssl.SSLError as error:
                if not size:
                    return len(self._ended(error))
            if size or not await self._receive():
                return size

    async def send_eof(self) -> None:
        """Tell the peer that nothing more comes.  What it has sent may still be received."""
        await trio.lowlevel.checkpoint()
        if self._is_started and not self._unsent:
            with suppress(ssl.SSLError):
                self._tls.unwrap()
            self._tell_peer()

    async def aclose(self) -> None:
        """Tell the peer, if there is room for it, and close."""
        if self._is_started and not self._unsent:
            with suppress(ssl.SSLError):
                self._tls.unwrap()
            self._tell_peer()
        self._is_started = False
        await self._inner.aclose()

    def peer_has_closed(self) -> bool:
        return self._inner.peer_has_closed()

    # Encrypted bytes

    def _write(self, piece: bytes | memoryview) -> None:
        try:
            self._tls.write(piece)
        except ssl.SSLError as error:
            raise trio.BrokenResourceError(f"TLS: {reason_of(error)}") from error

    def _read(self, max_bytes: int) -> bytes | None:
        """What can be read without receiving: at most `max_bytes`, b"" at the end, None if nothing is there."""
        pieces, left = [], max_bytes
        try:
            first = self._tls.read(min(left, _RECORD_BYTES))
            # OpenSSL would tell by an error, which costs more than a small record.
            self._may_have_more = bool(self._tls.pending() or self._received.pending or not first)
            if not self._may_have_more:
                if self._encrypted.pending:
                    self._tell_peer()
                return first
            if not first:
                return first
            pieces.append(first)
            left -= len(first)
            while left and (piece := self._tls.read(left)):
                pieces.append(piece)
                left -= len(piece)
        except ssl.SSLWantReadError:
            self._may_have_more = False
            self._tell_peer()
            return b"".join(pieces) or None
        except ssl.SSLError as error:
            if not pieces:
                return self._ended(error)
        return b"".join(pieces)

    def _ended(self, error: ssl.SSLError) -> bytes:
        if isinstance(error, ssl.SSLZeroReturnError | ssl.SSLEOFError):
            return b""
        self._tell_peer()
        raise trio.BrokenResourceError(f"TLS: {reason_of(error)}") from error

    async def _started_or_checkpoint(self) -> None:
        """Make every receive a checkpoint.  One that has to wait for bytes is one anyway."""
        if not self._is_started:
            await self.start()
        elif self._may_have_more:
            await trio.lowlevel.checkpoint()

    async def _receive(self) -> bool:
        """Receive encrypted bytes.  Returns whether any came."""
        received = await self._inner.receive_some(_RECEIVE_BYTES)
        if received:
            self._received.write(received)
            self._may_have_more = True
        else:
            self._received.write_eof()
        return bool(received)

    def _send_encrypted(self) -> bool:
        """Give what is encrypted to the inner stream, after what it has not taken.  Returns whether it took all."""
        if self._unsent and not self._send_unsent():
            return False
        self._unsent = memoryview(self._encrypted.read())
        return self._send_unsent()

    def _send_unsent(self) -> bool:
        while self._unsent:
            sent = self._inner.send_now(self._unsent)
            if not sent:
                return False
            self._unsent = self._unsent[sent:]
        return True

    async def _flush(self) -> None:
        while not self._send_encrypted():
            await self._inner.wait_send_all_might_not_block()

    def _tell_peer(self) -> None:
        """Send an alert or the answer to a key update, if OpenSSL made one.  What is not taken follows later."""
        if self._encrypted.pending:
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                self._send_encrypted()


def reason_of(error: ssl.SSLError | ssl.CertificateError) -> str:
    """Why, in words, such as "certificate verify failed: certificate has expired"."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate verify failed: {error.verify_message}"
    return (error.reason or str(error)).lower().replace("_", " ") if isinstance(error, ssl.SSLError) else str(error)
