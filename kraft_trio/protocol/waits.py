"""Derives how long a node waits for others, so that every wait fits into the configured timeouts.

The leader answers a Fetch before its sender gives up.  A lost Fetch is repeated before the fetch timeout ends.  An idle
follower fetches several times within the 1.5 fetch timeouts of check-quorum.
"""

from __future__ import annotations

from typing import Final

LEAST_TIMEOUT_MS: Final = 20
"""The shortest election, fetch or request timeout that leaves room for the waits below and for a round trip."""

FETCH_MAX_WAIT_MS: Final = 500
MAX_DOUBLINGS: Final = 20
RECONNECT_BACKOFF_MAX_MS: Final = 500


def fetch_max_wait_ms(fetch_timeout_ms: int, request_timeout_ms: int) -> int:
    """How long the leader may hold a Fetch without news: at most a quarter of each timeout."""
    return max(1, min(FETCH_MAX_WAIT_MS, fetch_timeout_ms // 4, request_timeout_ms // 4))


def fetch_answer_wait_ms(fetch_timeout_ms: int, request_timeout_ms: int) -> int:
    """When to give up a Fetch or FetchSnapshot: early enough to repeat it before the fetch timeout ends."""
    return max(1, min(request_timeout_ms, fetch_timeout_ms * 3 // 4))


def announcement_wait_ms(fetch_timeout_ms: int, request_timeout_ms: int) -> int:
    """When to give up a BeginQuorumEpoch: before the next one is due, half a fetch timeout later."""
    return max(1, min(request_timeout_ms, fetch_timeout_ms // 2))


def vote_wait_ms(election_timeout_ms: int, request_timeout_ms: int) -> int:
    """When to give up a Vote or EndQuorumEpoch: before the shortest stay of its sender in that role ends."""
    return min(request_timeout_ms, election_timeout_ms)


def retry_backoff_ms(configured_ms: int, fetch_timeout_ms: int, election_timeout_ms: int) -> int:
    """The least wait before a request is repeated; the actual wait is random, up to twice this."""
    return min(configured_ms, fetch_timeout_ms // 16, election_timeout_ms // 8)


def election_backoff_ms(lost: int, part: float, election_timeout_ms: int, configured_max_ms: int) -> float:
    """How long a candidate waits before it asks for pre-votes again, after `lost` elections in a row (1 or more).

    This is the binary exponential backoff of KIP-595, with a tenth of the election timeout in place of 100 ms.  `part`
    is random, from 0.25 to 1, so that candidates do not rise together again, also at the maximum.
    """
    most_ms = election_backoff_max_ms(configured_max_ms, election_timeout_ms)
    return part * min(most_ms, election_timeout_ms / 10 * (2 << min(MAX_DOUBLINGS, lost - 1)))


def election_backoff_max_ms(configured_ms: int, election_timeout_ms: int) -> int:
    """The longest wait after a lost election."""
    return min(configured_ms, election_timeout_ms)


def discovery_wait_ms(fetch_timeout_ms: int, request_timeout_ms: int) -> int:
    """When a node that looks for the leader gives up on one peer and asks another."""
    return min(request_timeout_ms, fetch_timeout_ms)


def reconnect_backoff_max_ms(fetch_timeout_ms: int, election_timeout_ms: int) -> int:
    """The longest wait before the next attempt to connect to a peer."""
    return max(1, min(RECONNECT_BACKOFF_MAX_MS, fetch_timeout_ms // 4, election_timeout_ms // 2))
