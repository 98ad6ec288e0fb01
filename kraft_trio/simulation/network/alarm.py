"""`Alarm`: a wait until a time that others may move while it lasts."""

from __future__ import annotations

import trio


class Alarm:
    """One task may wait for it at a time."""

    def __init__(self) -> None:
        self.is_awaited = False
        self._scope: trio.CancelScope | None = None

    async def wait_until(self, time: float) -> None:
        """Wait until that time, or the one that it was moved to meanwhile, has come.

        Raises trio.BusyResourceError when somebody waits already.
        """
        if self._scope is not None:
            raise trio.BusyResourceError("another task is waiting already")
        with trio.CancelScope(deadline=time) as scope:
            self.is_awaited, self._scope = True, scope
            try:
                await trio.sleep_forever()
            finally:
                self.is_awaited, self._scope = False, None

    def move_to(self, time: float) -> None:
        """Let the present wait, if there is one, end at that time."""
        if self._scope is not None:
            self._scope.deadline = time
