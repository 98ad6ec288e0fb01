"""Limits how fast a leader takes requests for voter changes: a token bucket.

See docs/reference/limits.md#limits-that-are-configured.
"""

from __future__ import annotations

import attrs


@attrs.define
class VoterChangeRate:
    """The allowance of one leader's epoch.  It begins full.

    Half of it is reserved for changes of replicas that the leader knows: voters, and replicas that fetch from it.  So
    requests about others cannot keep a new controller from joining.
    """

    per_minute: int
    burst: int
    """How many requests are taken at once."""
    _at_s: float = attrs.field(alias="now_s")
    _left: float = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._left = self.burst

    def take(self, now_s: float, *, is_about_known: bool) -> bool:
        """Whether a request may be taken now.  `now_s` never falls from one call to the next."""
        self._left = min(self.burst, self._left + (now_s - self._at_s) * self.per_minute / 60)
        self._at_s = now_s
        if self._left < 1 + (0 if is_about_known else self.burst // 2):
            return False
        self._left -= 1
        return True
