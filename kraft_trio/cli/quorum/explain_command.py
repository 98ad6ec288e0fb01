"""`kraft metadata-quorum explain`: what each node claims, what is wrong, and what to do."""

from __future__ import annotations

import time

import attrs
import click
import trio

from kraft_trio.cli.directory.stopped_node import not_asked, own_endpoint, with_directory
from kraft_trio.cli.quorum.quorum_options import ANSWER_MS, FETCH_TIMEOUT_MS, QuorumOptions
from kraft_trio.cli.terminal.config_option import read_config
from kraft_trio.cli.terminal.json_option import echo_json, json_option
from kraft_trio.cli.terminal.layout import table
from kraft_trio.cli.terminal.output import echo, echo_line, field
from kraft_trio.cli.terminal.paths import NamedPath
from kraft_trio.client.claims import CLIENT_ID, ask_all
from kraft_trio.client.cluster_reader import ClusterReader
from kraft_trio.client.explanation import explanation_fields
from kraft_trio.config.values import PLAINTEXT
from kraft_trio.diagnosis.finding import Severity
from kraft_trio.diagnosis.quorum_findings import contradictions, findings
from kraft_trio.diagnosis.quorum_situation import Claim, Situation
from kraft_trio.errors import NetworkError

_COLUMNS = ("NodeId", "Endpoint", "Epoch", "Leader", "Voters", "LogEnd", "HighWatermark")


@click.command()
@click.option(
    "-c",
    "--config",
    "config_path",
    metavar="FILE",
    type=NamedPath(),
    help="A node of this machine.  Its bootstrap servers are asked, as it asks them; if it does not answer, its"
    " directory is looked at.",
)
@json_option
@click.pass_context
def explain(context: click.Context, config_path: str | None, as_json: bool) -> None:
    """Say what is wrong with a quorum, and what to do.

    Every node is asked for its own view.  Nodes of Apache Kafka are asked, too; their leader tells where the logs end.
    A ! marks what contradicts the highest epoch.  Exits with 1 if something is critical, such as a quorum without a
    leader.

    \b
    Example:
      kraft metadata-quorum --bootstrap-controller a:9093 explain
    """
    options: QuorumOptions = context.obj
    config = None if config_path is None else read_config(config_path)
    own = None if config is None else own_endpoint(config)
    endpoints, network = options.endpoints(context, config, own), options.network(config)
    command_config = options.command_config
    if (
        config is not None
        and command_config is None
        and config.security_protocol_of(config.controller_listener_name) != PLAINTEXT
    ):
        command_config = config_path
    timeout_ms = min(options.timeout_ms, ANSWER_MS)

    async def look() -> Situation:
        fetch_timeout_ms = FETCH_TIMEOUT_MS if config is None else config.fetch_timeout_ms
        told = await ask_all(network, endpoints, timeout_ms=timeout_ms, fetch_timeout_ms=fetch_timeout_ms)
        if config is not None and config_path is not None:
            told = await with_directory(told, config, config_path)
            if further := not_asked(told, own, endpoints):
                everybody = [*endpoints, *further]
                told = await ask_all(network, everybody, timeout_ms=timeout_ms, fetch_timeout_ms=fetch_timeout_ms)
                told = await with_directory(told, config, config_path)
        told = await ClusterReader(network, CLIENT_ID).look(told, timeout_ms)
        told = attrs.evolve(told, clock_offset_ms=wall_clock_ms() - round(trio.current_time() * 1000))
        return told

    situation = attrs.evolve(trio.run(look), command_config=command_config, now_ms=wall_clock_ms())
    found = findings(situation)
    if as_json:
        echo_json(explanation_fields(situation))
    else:
        echo(claims_text(situation))
        for finding in found:
            echo_line(f"{finding.severity.value}: {field(finding.text)}")
            if finding.command is not None:
                echo_line(f"    {field(finding.command)}")
    critical = [finding.code for finding in found if finding.severity is Severity.CRITICAL]
    if critical:
        raise NetworkError(f"critical: {', '.join(critical)}")


def wall_clock_ms() -> int:
    """The clock of this machine, in ms since 1970."""
    return time.time_ns() // 1_000_000


def claims_text(situation: Situation) -> str:
    """The nodes side by side, followed by those that did not answer."""
    rows = [_COLUMNS, *(_row(situation, claim) for claim in situation.answers)]
    kinds = ["Kind", *map(_kind, situation.answers)]
    if set(kinds[1:]) - {"-"}:
        rows = [(*row, kind) for row, kind in zip(rows, kinds, strict=True)]
    silent = [claim for claim in situation.claims if claim.problem is not None]
    told = [field(f"{_text(claim.node_id)} {claim.endpoint}: {claim.problem}") for claim in silent]
    return "\n".join([*([table(rows)] if len(rows) > 1 else []), *told])


def _row(situation: Situation, claim: Claim) -> tuple[str, ...]:
    wrong = contradictions(situation, claim)
    voters = None if claim.voter_ids is None else ",".join(map(str, claim.voter_ids))
    marked = (("epoch", claim.epoch), ("leader", claim.leader_id), ("voters", voters))
    return (
        _text(claim.node_id),
        claim.endpoint,
        *(_text(value) + ("!" if name in wrong else "") for name, value in marked),
        _text(claim.reported_end if claim.log_end is None else claim.log_end),
        _text(claim.reported_high_watermark if claim.high_watermark is None else claim.high_watermark),
    )


def _kind(claim: Claim) -> str:
    return "witness" if claim.is_witness else "broker" if claim.is_broker else "-"


def _text(value: object) -> str:
    return "-" if value is None else str(value)
