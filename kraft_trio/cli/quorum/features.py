"""`kraft features`: the feature levels of a running quorum, in the words of kafka-features (KIP-584, KIP-853)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import click
import trio

from kraft_trio.cli.directory.feature_levels import parse_levels
from kraft_trio.cli.directory.feature_tables import feature_dependencies, version_mapping
from kraft_trio.cli.directory.release_version import kraft_version_of_release
from kraft_trio.cli.quorum.quorum_options import QuorumOptions, quorum_options
from kraft_trio.cli.terminal.json_option import echo_json, json_option
from kraft_trio.cli.terminal.output import echo, echo_line, field
from kraft_trio.client.admin import AdminClient, VoterChangeError
from kraft_trio.errors import ConfigError, KraftError, NetworkError, OutcomeUnknownError
from kraft_trio.protocol.voter_set import KRAFT_VERSION, SUPPORTED_KRAFT_VERSIONS

_release_option = click.option(
    "--release-version", metavar="RELEASE", help="The level of that release of Apache Kafka, such as 4.1."
)


@click.group()
@quorum_options
def features() -> None:
    """Describe or raise the feature levels of a running quorum.  The only feature is kraft.version."""


_level_option = click.option(
    "--feature",
    "texts",
    multiple=True,
    metavar="NAME=LEVEL",
    help="A feature and its new level, such as kraft.version=1.",
)


@features.command()
@json_option
@click.pass_context
def describe(context: click.Context, as_json: bool) -> None:
    """Print the supported and finalized levels."""
    options: QuorumOptions = context.obj
    told = trio.run(options.client(context).describe_features, options.timeout_ms)
    if as_json:
        echo_json(
            {
                "features": [
                    {
                        "name": feature.name,
                        "supportedMinVersion": feature.supported.minimum,
                        "supportedMaxVersion": feature.supported.maximum,
                        "finalizedVersionLevel": feature.finalized,
                    }
                    for feature in told.features
                ],
                "epoch": told.epoch,
            }
        )
        return
    epoch = "-" if told.epoch is None else told.epoch
    for feature in told.features:
        echo(
            f"Feature: {field(feature.name)}\tSupportedMinVersion: {feature.supported.minimum}\t"
            f"SupportedMaxVersion: {feature.supported.maximum}\tFinalizedVersionLevel: {feature.finalized}\t"
            f"Epoch: {epoch}"
        )


@features.command()
@_level_option
@_release_option
@click.option("--dry-run", is_flag=True, help="Only ask whether the upgrade would succeed.")
@click.pass_context
def upgrade(context: click.Context, texts: tuple[str, ...], release_version: str | None, dry_run: bool) -> None:
    """Finalize a feature level.

    By default, it is the newest kraft.version that this command knows.  kraft.version 1 moves the voters into the log,
    where they can be changed.

    The leader refuses while a voter or observer does not support the level, and names it.  An upgrade cannot be undone.
    """
    levels = _levels(texts, release_version) or {KRAFT_VERSION: SUPPORTED_KRAFT_VERSIONS.maximum}
    _update(context, "upgrade", levels, dry_run)


@features.command()
@_level_option
@_release_option
@click.option("--dry-run", is_flag=True, help="Only ask whether the downgrade would succeed.")
@click.pass_context
def downgrade(context: click.Context, texts: tuple[str, ...], release_version: str | None, dry_run: bool) -> None:
    """Ask for a lower level.  The leader never lowers kraft.version (KIP-853)."""
    levels = _levels(texts, release_version)
    if not levels:
        raise ConfigError("one of --feature and --release-version must name the lower level")
    _update(context, "downgrade", levels, dry_run)


@features.command()
@click.option("--feature", "names", multiple=True, required=True, metavar="NAME", help="A feature; may be repeated.")
@click.option("--unsafe", is_flag=True, help="Disable it even if that destroys metadata of Kafka's controllers.")
@click.option("--dry-run", is_flag=True, help="Only ask whether the features can be disabled.")
@click.pass_context
def disable(context: click.Context, names: tuple[str, ...], unsafe: bool, dry_run: bool) -> None:
    """Ask for level 0 of features.  The leader never lowers kraft.version (KIP-853)."""
    for name in names:
        if not name.strip() or "=" in name:
            raise ConfigError(f"--feature {name}: expected the name of a feature, without a level")
    levels = parse_levels([f"{name}=0" for name in names])
    _update(context, "disable", levels, dry_run, unsafe=unsafe)


features.add_command(version_mapping)
features.add_command(feature_dependencies)


def _levels(texts: Sequence[str], release_version: str | None) -> dict[str, int]:
    """The levels that the flags name, if any."""
    if release_version is None:
        return parse_levels(texts)
    if texts:
        raise ConfigError("--feature and --release-version exclude each other")
    return {KRAFT_VERSION: kraft_version_of_release(release_version)}


def _update(
    context: click.Context, what: str, levels: Mapping[str, int], dry_run: bool, *, unsafe: bool = False
) -> None:
    """Ask for one feature after the other, because a leader refuses all features of a request if it refuses one.

    Says of each what became of it.  Raises the error of the last that could not be updated.
    """
    options: QuorumOptions = context.obj
    client = options.client(context, changes=True)
    failures: list[KraftError] = []
    how: dict[str, bool] = {"validate_only": dry_run, "allow_downgrade": what != "upgrade"}
    how |= {"unsafe": True} if unsafe else {}
    for name, level in levels.items():
        to = "" if what == "disable" else f" to {level}"
        try:
            before = trio.run(_levels_before, client, {name: level}, how, options.timeout_ms)
        except VoterChangeError as error:
            reason = str(error).removeprefix("update features: ")
            failures.append(KraftError(f"Could not {what} {name}{to}. {reason}"))
            failures[-1].__cause__ = error
        except OutcomeUnknownError as error:
            failures.append(error)
            break
        except NetworkError as error:
            # The user does not care which of the two requests found no leader.
            reason = str(error).removeprefix("describe features: ").removeprefix("update features: ")
            failures.append(NetworkError(f"Could not {what} {name}{to}: {reason}"))
            break
        else:
            is_there = before.get(name) == level
            done = f"is {level} already" if is_there else f"{'can be' if dry_run else 'was'} {what}d{to}"
            echo(f"{name} {done}.")
    for failure in failures[:-1]:
        echo_line(f"kraft: error: {failure}", err=True)
    if failures:
        raise failures[-1]


async def _levels_before(
    client: AdminClient, levels: Mapping[str, int], how: Mapping[str, bool], find_leader_ms: int
) -> dict[str, int]:
    """Finalize the levels and return those that were finalized before.

    If the leader's answer is lost, ask the current leader again; it reports a level that is finalized already.
    """
    told = await client.describe_features(find_leader_ms)
    try:
        await client.update_features(levels, **how)
    except OutcomeUnknownError as lost:
        try:
            await client.update_features(levels, **how)
        except NetworkError as error:
            raise OutcomeUnknownError(f"{lost}; could not find out whether it was done: {error}") from lost
    return {feature.name: feature.finalized for feature in told.features}
