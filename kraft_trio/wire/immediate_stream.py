"""A byte stream that can also send in the very step that gives it something to send."""

from __future__ import annotations

from abc import abstractmethod

import trio


class ImmediateStream(trio.abc.Stream):
    """What `Network.connect` and `Listener.accept` give: a stream with a send that does not wait.

    One task may send and one may receive at a time; `send_now` counts as a send.
    """

    peer_host: str = ""
    """The address of the peer, without its port; empty where there is none."""

    @abstractmethod
    def send_now(self, *parts: bytes | memoryview) -> int:
        """Take as much of them, as of one, as there is room for, without waiting; how many bytes that was, perhaps 0.

        Raises trio.BrokenResourceError when the connection is known to be broken, trio.ClosedResourceError when this
        stream is closed.  That it was taken does not say that it will arrive.
        """

    def peer_has_closed(self) -> bool:
        """Whether the peer is known to send nothing more, also where not all that it has sent was received."""
        return False
