"""What one task of a campaign does, the same in a process of this machine and in an executor of Spark."""

from __future__ import annotations

import attrs

from kraft_trio.simulation.campaign.chunks import Chunk, run_chunk
from kraft_trio.simulation.campaign.outcome import Outcome
from kraft_trio.simulation.campaign.seed_run import Runs
from kraft_trio.spark.campaign_files import CampaignDirectory


@attrs.frozen
class ChunkTask:
    """Runs the seeds of a chunk, and keeps what comes of them where there is a directory."""

    runs: Runs
    directory: CampaignDirectory | None = None

    def __call__(self, chunk: Chunk, attempt: int) -> list[Outcome]:
        """The outcomes, in the chunk's order; `attempt` from 0 on.  Raises OSError where they cannot be kept."""
        outcomes = list(run_chunk(chunk, self.runs.run, limit_s=self.runs.limit_s, attempt=attempt))
        if self.directory is not None:
            self.directory.keep(outcomes, self.runs.replay, self.runs.run_traced)
        return outcomes
