"""`version-mapping` and `feature-dependencies`, which ask nobody (KIP-1022).  Their output is that of Kafka's tools."""

from __future__ import annotations

import click

from kraft_trio.cli.directory.feature_levels import parse_levels
from kraft_trio.cli.terminal.json_option import echo_json, json_option
from kraft_trio.cli.terminal.output import echo
from kraft_trio.errors import ConfigError
from kraft_trio.protocol.release_features import (
    LATEST,
    MAX_LEVELS,
    METADATA_VERSION,
    METADATA_VERSIONS,
    default_levels,
    dependencies,
    is_level,
    metadata_version_of,
    name_of_level,
)


@click.command("version-mapping")
@click.option("-r", "--release-version", default=LATEST, show_default=True, metavar="RELEASE", help="Such as 4.1.")
@json_option
def version_mapping(release_version: str, as_json: bool) -> None:
    """Print the feature levels of a release of Kafka."""
    metadata_version = metadata_version_of(release_version.strip())
    if metadata_version is None:
        raise ConfigError(
            f"--release-version {release_version}: expected a release of Kafka from {next(iter(METADATA_VERSIONS))} to "
            f"{LATEST}, such as 4.1"
        )
    if as_json:
        levels = {METADATA_VERSION: METADATA_VERSIONS[metadata_version], **default_levels(metadata_version)}
        echo_json({"release": release_version.strip(), "levels": levels})
        return
    echo(f"{METADATA_VERSION}={METADATA_VERSIONS[metadata_version]} ({release_version.strip()})")
    for name, level in default_levels(metadata_version).items():
        echo(f"{name}={level}")


@click.command("feature-dependencies")
@click.option("-f", "--feature", "texts", multiple=True, required=True, metavar="NAME=LEVEL", help="May be repeated.")
@json_option
def feature_dependencies(texts: tuple[str, ...], as_json: bool) -> None:
    """Print which levels of other features a level needs."""
    levels = parse_levels(texts)
    for name, level in levels.items():
        _check(name, level)
    if as_json:
        echo_json(
            [{"feature": name, "level": level, "requires": dependencies(name, level)} for name, level in levels.items()]
        )
        return
    for name, level in levels.items():
        needed = dependencies(name, level)
        echo(f"{_shown(name, level)} {'requires:' if needed else 'has no dependencies.'}")
        for other, other_level in needed.items():
            echo(f"    {_shown(other, other_level)}")


def _check(name: str, level: int) -> None:
    if name != METADATA_VERSION and name not in MAX_LEVELS:
        known = ", ".join((METADATA_VERSION, *MAX_LEVELS))
        raise ConfigError(f"--feature {name}={level}: unknown feature; expected one of {known}")
    if not is_level(name, level):
        names = METADATA_VERSIONS.values()
        allowed = f"{min(names)} to {max(names)}" if name == METADATA_VERSION else f"0 to {MAX_LEVELS[name]}"
        raise ConfigError(f"--feature {name}={level}: no such level; expected {allowed}")


def _shown(name: str, level: int) -> str:
    return f"{name}={level} ({name_of_level(level)})" if name == METADATA_VERSION else f"{name}={level}"
