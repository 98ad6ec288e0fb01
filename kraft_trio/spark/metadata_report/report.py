"""The report of a cluster's history: a self-contained HTML file with plots."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from kraft_trio.spark.directories.replicas import Replica
from kraft_trio.spark.file_system import printable
from kraft_trio.spark.metadata.replaying import Replaying
from kraft_trio.spark.metadata_report.plots import plots_of
from kraft_trio.spark.metadata_report.timeline import NOBODY, UP, BrokerState, Timeline
from kraft_trio.storage.disk.created_files import write_own_text

MOST_TOPICS = 30
"""Most births and deaths of topics in the table."""
MOST_PROBLEMS = 20


def write_report(timeline: Timeline, replica: Replica, path: Path) -> None:
    """Write the report into an existing directory.  Raises OSError."""
    write_own_text(path, report(timeline, replica))


def timeline_of(replica: Replica) -> Timeline:
    """The history of a replica's metadata, from the oldest snapshot or the log's beginning.  Blocks."""
    return Timeline(Replaying(replica, begin=0)).gather()


def report(timeline: Timeline, replica: Replica) -> str:
    """The text of the HTML file."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(files(__package__).joinpath("report.html").read_text(encoding="utf-8"))
    newest: dict[int, BrokerState] = {one.broker: one for one in timeline.broker_states}
    return template.render(
        timeline=timeline,
        cluster=replica.cluster_id or "unknown",
        node=replica.node_id,
        directory=printable(replica.directory),
        start=_text(timeline.start_us or 0),
        end=_text(timeline.end_us),
        end_offset=timeline.replaying.end,
        elections=timeline.elections,
        brokers=len([one for one in newest.values() if one.state != "not registered"]),
        brokers_up=len([one for one in newest.values() if one.state == UP]),
        leaderless=timeline.leaders[NOBODY].value,
        topic_events=[(one, _text(one.time_us)) for one in reversed(timeline.topic_events)][:MOST_TOPICS],
        problems=timeline.problems[:MOST_PROBLEMS],
        plots=[Markup(plot) for plot in plots_of(timeline)],
        version=version("kraft-trio"),
    )


def _text(time_us: int) -> str:
    return f"{datetime.fromtimestamp(time_us / 1e6, UTC):%Y-%m-%d %H:%M:%S}"
