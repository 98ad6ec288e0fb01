"""One task of a campaign, the same in a local process and in a Spark executor."""

from __future__ import annotations

import attrs

from kraft_trio.simulation.campaign.chunks import Chunk, run_chunk
from kraft_trio.simulation.campaign.outcome import Outcome
from kraft_trio.simulation.campaign.seed_run import Runs
from kraft_trio.spark.campaigns.files import CampaignDirectory


@attrs.frozen
class ChunkTask:
    """Runs the seeds of a chunk, and stores their outcomes if there is a directory."""

    runs: Runs
    directory: CampaignDirectory | None = None

    def __call__(self, chunk: Chunk, attempt: int) -> list[Outcome]:
        """The outcomes in the chunk's order; `attempt` counts from 0.  Raises OSError if they cannot be stored."""
        outcomes = list(run_chunk(chunk, self.runs.run, limit_s=self.runs.limit_s, attempt=attempt))
        if self.directory is not None:
            self.directory.keep(outcomes, self.runs.replay, self.runs.run_traced)
        return outcomes
