"""A byte stream that can also send without waiting."""

from __future__ import annotations

from abc import abstractmethod

import trio


class ImmediateStream(trio.abc.Stream):
    """The stream that `Network.connect` and `Listener.accept` return.

    One task may send and one may receive at a time; `send_now` counts as a send.
    """

    peer_host: str = ""
    """The address of the peer without its port, or an empty text if it has no address."""

    @abstractmethod
    def send_now(self, *parts: bytes | memoryview) -> int:
        """Send as many bytes of the concatenated parts as there is room for, without waiting.

        Returns the number of bytes taken, which may be 0.  The peer may never receive them.  Raises
        trio.BrokenResourceError if the connection is known to be broken, and trio.ClosedResourceError if this stream is
        closed.
        """

    def peer_has_closed(self) -> bool:
        """Whether the peer is known to have closed its side, even if received bytes have not been read yet."""
        return False
