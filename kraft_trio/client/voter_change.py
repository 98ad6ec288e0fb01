"""What an administrator's change of the voters can end with."""

from __future__ import annotations

from kraft_trio.errors import KraftError
from kraft_trio.wire.error_codes import ErrorCode


class VoterChangeError(KraftError):
    """The leader refused a change, or ran out of time for it.

    `error` is what it answered.  REQUEST_TIMED_OUT and NOT_LEADER_OR_FOLLOWER leave a change that was appended already
    to commit or to vanish; the message says so.  After any other error nothing has changed.
    """

    def __init__(self, what: str, error: ErrorCode, message: str | None) -> None:
        self.error = error
        super().__init__(f"{what}: {error.name.upper()}" + (f": {message}" if message else ""))
