"""The metrics of one node: read on demand from their owners, or measured continuously."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

import trio

from kraft_trio.actors.context.replica_progress import ProgressTable
from kraft_trio.actors.context.request_failures import RequestFailures
from kraft_trio.actors.context.restored_voters import RestoredVoters
from kraft_trio.actors.snapshots.snapshot_fetch import SnapshotFetch
from kraft_trio.actors.snapshots.snapshot_taker import SnapshotTaker
from kraft_trio.actors.waiting.published import Published
from kraft_trio.background_log import dropped_lines
from kraft_trio.config import NodeConfig
from kraft_trio.errors import CorruptSnapshotError
from kraft_trio.logs import shortened_texts
from kraft_trio.messages import QuorumView
from kraft_trio.metrics.definitions import metrics_of
from kraft_trio.metrics.idle_time import IdleTime
from kraft_trio.metrics.latencies import ElectionTimes, RecordTimes
from kraft_trio.metrics.load import NodeLoad
from kraft_trio.metrics.stall_watch import StallWatch
from kraft_trio.metrics.text_format import Family, Sample, as_text, families
from kraft_trio.protocol.roles import Follower, Leader, Prospective, Unattached, vote_of
from kraft_trio.protocol.types import NO_DIRECTORY_ID, ReplicaKey, directory_id_to_text
from kraft_trio.storage.log.log import Log

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

_CERTIFICATES: Final = "certificate-expiry-timestamp-seconds"


class NodeMetrics:
    """The metrics of one node, in their own Prometheus registry.

    Call everything from the node's Trio thread.  Nothing blocks, and an append costs one extra call.  An application
    may add collectors of its own to `registry`.
    """

    def __init__(
        self,
        *,
        key: ReplicaKey,
        config: NodeConfig,
        log: Log,
        view: Published[QuorumView],
        progress: Callable[[], ProgressTable | None],
        snapshot_fetch: SnapshotFetch,
        snapshot_taker: SnapshotTaker | None,
        wall_clock_ms: Callable[[], int],
        failures: RequestFailures,
        restored: RestoredVoters,
        load: Callable[[], NodeLoad],
        has_stopped_machine: Callable[[], bool] = lambda: False,
        has_registered: Callable[[], bool | None] = lambda: None,
        certificates: Callable[[], Sequence[Sample]] = tuple,
        has_virtual_time: bool = False,
    ) -> None:
        """`snapshot_taker` is None if the node has no state machine.

        `certificates` returns the samples of that metric.
        """
        self._registry: CollectorRegistry | None = None
        self._key = key
        self._config = config
        self._metrics = metrics_of(config.process_roles)
        self._log = log
        self._view = view
        self._progress = progress
        self._failures = failures
        self._restored = restored
        self._load = load
        self._has_stopped_machine = has_stopped_machine
        self._has_registered = has_registered
        self._certificates = certificates
        self._snapshot_fetch = snapshot_fetch
        self._snapshot_taker = snapshot_taker
        self._began_at_s = trio.current_time()
        self._wall_clock_ms = wall_clock_ms
        self._records = RecordTimes(leads=isinstance(view.value.role, Leader))
        self._elections = ElectionTimes(view.value)
        self._idle = IdleTime()
        self._stalls = None if has_virtual_time else StallWatch()
        log.watch(self._records)
        view.subscribe(self._records.published)
        view.subscribe(self._elections.published)

    async def run(self) -> None:
        """Measure what needs its own tasks, until cancelled: the event loop's idle time and stalls.

        Without this, the idle ratio has no value and there are no stalls.
        """
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._idle.run)
            if self._stalls is not None:
                nursery.start_soon(self._stalls.run)

    def values(self) -> dict[str, float | str]:
        """The current values by KIP name; metrics without a current value are missing."""
        values = {
            **self._of_quorum(),
            **self._of_log(),
            **self._of_snapshots(),
            **self._of_leader(),
            **self._load().values(),
            "number-of-producer-ids": self._log.producer_count,
            "is-witness": int(self._config.witness),
            "is-registered": None if (registered := self._has_registered()) is None else int(registered),
            "number-of-restored-voters": self._restored.count,
            "state-machine-stopped": int(self._has_stopped_machine()),
            _CERTIFICATES: min((sample.value for sample in self._certificates()), default=None),
            **self._measured(),
        }
        names = {metric.name for metric in self._metrics}
        return {name: value for name, value in values.items() if name in names and value is not None}

    @property
    def registry(self) -> CollectorRegistry:
        """The metrics for prometheus_client, which the first access imports."""
        if self._registry is None:
            from kraft_trio.metrics.registry import registry_of

            self._registry = registry_of(self._families)
        return self._registry

    def exposition(self, *, open_metrics: bool = False) -> bytes:
        """The whole registry in Prometheus text format, or in OpenMetrics text format."""
        if self._registry is None:
            return as_text(self._families(), open_metrics=open_metrics)
        from kraft_trio.metrics.registry import generate_latest, generate_open_metrics

        return generate_open_metrics(self._registry) if open_metrics else generate_latest(self._registry)

    def _families(self) -> Iterable[Family]:
        samples = {_CERTIFICATES: self._certificates()}
        return families(self._key.id, self._metrics, self.values(), samples, self._wall_clock_ms())

    # Values that other objects hold

    def _of_quorum(self) -> dict[str, float | str | None]:
        view = self._view.value
        vote = vote_of(view.role, self._key)
        return {
            "current-state": self._state(view),
            "current-leader": -1 if view.known_leader_id is None else view.known_leader_id,
            "current-epoch": view.epoch,
            "current-vote": -1 if vote is None else vote.id,
            "current-vote-directory-id": directory_id_to_text(NO_DIRECTORY_ID if vote is None else vote.directory_id),
        }

    def _state(self, view: QuorumView) -> str:
        """In the words of Kafka's KafkaRaftMetrics (KIP-996), which calls Resigned unattached."""
        role = view.role
        if isinstance(role, Follower) and not self._log.voters.voters.is_voter(self._key):
            return "observer"
        has_voted = isinstance(role, Prospective | Unattached) and role.voted is not None
        return type(role).__name__.lower() + ("-voted" if has_voted else "")

    def _of_log(self) -> dict[str, float | str | None]:
        history, high_watermark = self._log.voters, self._log.high_watermark
        listener = self._config.controller_listener_name
        unreachable = [
            voter for voter in history.voters if voter.id != self._key.id and voter.endpoints.get(listener) is None
        ]
        return {
            "high-watermark": -1 if high_watermark is None else high_watermark,
            "log-start-offset": self._log.log_start_offset,
            "log-size-bytes": self._log.size_in_bytes,
            "number-of-failed-requests": self._failures.count,
            "number-of-log-trims": self._records.trims,
            "log-end-offset": self._log.end.offset,
            "log-end-epoch": self._log.end.epoch,
            "number-of-voters": len(history.voters),
            "uncommitted-voter-change": self._has_uncommitted_change(),
            "number-unknown-voter-connections": len(unreachable),
            "finalized-level": None if high_watermark is None else history.kraft_version_at(high_watermark - 1),
            "ignored-static-voters": int(history.ignores_static_voters),
            "is-observer": int(not history.voters.is_voter(self._key)),
            "active-controller-count": int(isinstance(self._view.value.role, Leader) and not self._config.witness),
        }

    def _has_uncommitted_change(self) -> bool | None:
        """A leader that has committed nothing in its epoch counts its newest voter set as uncommitted."""
        uncommitted = self._log.voters.has_uncommitted_change(self._log.high_watermark)
        return True if uncommitted is None and isinstance(self._view.value.role, Leader) else uncommitted

    def _of_snapshots(self) -> dict[str, float | str | None]:
        return {
            "number-of-snapshots": len(self._log.snapshots.ids),
            "latest-snapshot-generated-bytes": self._newest_snapshot_bytes(),
            "latest-snapshot-generated-age-ms": self._newest_snapshot_age_ms(),
            "snapshot-download-ratio": self._download_ratio(),
        }

    def _newest_snapshot_bytes(self) -> int | None:
        newest = self._log.snapshots.newest
        if newest is None:
            return 0
        try:
            return self._log.snapshots.file(newest).size_in_bytes
        except (CorruptSnapshotError, OSError):
            return None

    def _newest_snapshot_age_ms(self) -> float | None:
        taker = self._snapshot_taker
        if taker is None:
            return None
        since_s = self._began_at_s if taker.generated_at_s is None else taker.generated_at_s
        return round((trio.current_time() - since_s) * 1000)

    def _download_ratio(self) -> float | None:
        size = self._snapshot_fetch.size_in_bytes
        return None if not size else self._snapshot_fetch.position / size

    def _of_leader(self) -> dict[str, float | str | None]:
        progress = self._progress()
        if progress is None:
            return {}
        voters, now_s = self._log.voters.voters, trio.current_time()
        return {
            "number-of-observers": progress.number_of_observers(voters, now_s),
            "number-of-offline-voters": progress.number_of_silent_voters(
                voters, self._config.fetch_timeout_ms / 1000, now_s
            ),
        }

    def _measured(self) -> dict[str, float | str | None]:
        now_s = trio.current_time()
        return {
            "election-latency-avg": self._elections.latencies_ms.mean(now_s),
            "election-latency-max": self._elections.latencies_ms.largest(now_s),
            "commit-latency-avg": self._records.latencies_ms.mean(now_s),
            "commit-latency-max": self._records.latencies_ms.largest(now_s),
            "sync-latency-p99-ms": self._records.sync_p99_ms(),
            "fetch-records-rate": self._records.fetched.rate(now_s),
            "append-records-rate": self._records.appended_as_leader.rate(now_s),
            "poll-idle-ratio-avg": self._idle.ratio(),
            "log-lines-lost": dropped_lines(),
            "number-of-shortened-log-texts": shortened_texts(),
            **self._of_event_loop(),
        }

    def _of_event_loop(self) -> dict[str, float | str | None]:
        stalls = self._stalls
        if stalls is None:
            return {}
        return {
            "event-loop-busy-max-ms": stalls.longest_wall_ms(),
            "event-loop-cpu-max-ms": stalls.longest_cpu_ms,
            "number-of-event-loop-stalls": stalls.stalls,
        }
