"""Decides what `kraft storage format` will write, before it touches anything.

The names and rules are those of Kafka 4.x (KIP-853 "kafka-storage format").  `--standalone`, `--initial-controllers`
and `--no-initial-controllers` exclude each other, because two of them would start two quorums (KAFKA-19489).  A
controller without static voters needs one of them.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from uuid import UUID

import attrs

from kraft_trio.cli.directory.release_version import kraft_version_of_release
from kraft_trio.config import NodeConfig
from kraft_trio.config.values import parse_peer, parse_replica_id
from kraft_trio.errors import ConfigError
from kraft_trio.protocol.release_features import LATEST, METADATA_VERSION
from kraft_trio.protocol.types import Endpoint, Endpoints, ReplicaKey, directory_id_from_text
from kraft_trio.protocol.voter_set import KRAFT_VERSION, SUPPORTED_KRAFT_VERSIONS, Voter, VoterSet
from kraft_trio.storage.directory.directory import RESERVED_DIRECTORY_IDS


class Bootstrap(enum.Enum):
    """How the first voters are chosen.  The value is the flag."""

    STANDALONE = "--standalone"
    INITIAL_CONTROLLERS = "--initial-controllers"
    NO_INITIAL_CONTROLLERS = "--no-initial-controllers"


@attrs.frozen
class InitialController:
    """One entry of `--initial-controllers`."""

    key: ReplicaKey
    endpoint: Endpoint


@attrs.frozen
class FormatPlan:
    """The contents of a newly formatted directory.  If `voters` is None, no bootstrap checkpoint is written."""

    cluster_id: str
    key: ReplicaKey
    kraft_version: int
    voters: VoterSet | None
    warnings: tuple[str, ...] = ()

    def other_endpoints(self) -> tuple[Endpoint, ...]:
        """Where the other voters listen."""
        others = (voter for voter in self.voters or () if voter.key != self.key)
        return tuple(endpoint for voter in others for _, endpoint in voter.endpoints)


def plan_format(
    config: NodeConfig,
    *,
    cluster_id: str,
    bootstrap: Bootstrap | None,
    initial_controllers: Sequence[InitialController],
    kraft_version: int | None,
    new_directory_id: Callable[[], UUID],
) -> FormatPlan:
    """Decide what to write.  Raises ConfigError naming the flag or key that conflicts with the others."""
    check_cluster_id(cluster_id)
    _check_bootstrap(config, bootstrap)
    kraft_version = _check_kraft_version(bootstrap, kraft_version, has_static_voters=bool(config.quorum_voters))
    if bootstrap is Bootstrap.INITIAL_CONTROLLERS:
        return _plan_initial_controllers(config, cluster_id, initial_controllers, kraft_version)
    key = ReplicaKey(config.node_id, new_directory_id())
    voters = None
    if bootstrap is Bootstrap.STANDALONE:
        voters = VoterSet([config.as_voter(key.directory_id)])
    static = next((voter for voter in config.quorum_voters if voter.id == config.node_id), None)
    warnings = () if static is None else _differing_addresses(config, "controller.quorum.voters", static.endpoint)
    return FormatPlan(cluster_id, key, kraft_version, voters, warnings)


def check_cluster_id(cluster_id: str) -> None:
    """Raises ConfigError unless it is a UUID as Kafka writes it."""
    try:
        directory_id_from_text(cluster_id)
    except ValueError as error:
        raise ConfigError(f"--cluster-id {error} (`kraft storage random-uuid` makes one)") from error


def _check_bootstrap(config: NodeConfig, bootstrap: Bootstrap | None) -> None:
    is_controller = "controller" in config.process_roles
    if bootstrap is None:
        if is_controller and not config.quorum_voters:
            raise ConfigError(
                "controller.quorum.voters is not set, so one of --standalone, --initial-controllers and "
                "--no-initial-controllers must select the first voters"
            )
        return
    if config.quorum_voters:
        raise ConfigError(
            f"{bootstrap.value} excludes controller.quorum.voters, which is set: both name the first voters"
        )
    if not is_controller and bootstrap is not Bootstrap.NO_INITIAL_CONTROLLERS:
        roles = ",".join(config.process_roles)
        raise ConfigError(f"{bootstrap.value} needs a node with the controller role; process.roles={roles}")


def _check_kraft_version(bootstrap: Bootstrap | None, kraft_version: int | None, *, has_static_voters: bool) -> int:
    if kraft_version is None:
        return 0 if has_static_voters else 1
    if kraft_version == 0 and bootstrap in (Bootstrap.STANDALONE, Bootstrap.INITIAL_CONTROLLERS):
        raise ConfigError(f"kraft.version=0: {bootstrap.value} needs kraft.version 1")
    if kraft_version == 1 and has_static_voters:
        raise ConfigError("kraft.version=1: controller.quorum.voters names static voters, kraft.version 0")
    return kraft_version


def _plan_initial_controllers(
    config: NodeConfig, cluster_id: str, controllers: Sequence[InitialController], kraft_version: int
) -> FormatPlan:
    own = next((controller for controller in controllers if controller.key.id == config.node_id), None)
    if own is None:
        ids = ", ".join(str(controller.key.id) for controller in controllers)
        raise ConfigError(f"--initial-controllers names {ids}, but not this node: node.id={config.node_id}")
    name = config.controller_listener_name
    voters = VoterSet(
        Voter(controller.key, Endpoints({name: controller.endpoint}), SUPPORTED_KRAFT_VERSIONS)
        for controller in controllers
    )
    warnings = _differing_addresses(config, "--initial-controllers", own.endpoint)
    return FormatPlan(cluster_id, own.key, kraft_version, voters, warnings)


def _differing_addresses(config: NodeConfig, source: str, endpoint: Endpoint) -> tuple[str, ...]:
    """A warning if the node announces another host than the others have of it.  Raises ConfigError for another port."""
    name = config.controller_listener_name
    advertised = config.advertised_endpoints().get(name)
    if advertised == endpoint:
        return ()
    differs = f"{source} has this node at {endpoint}, but it advertises {name}://{advertised}"
    if advertised is None or advertised.port != endpoint.port:
        # Two names may be of one host, but nobody listens on another port.
        raise ConfigError(f"{differs}: the other voters could not reach it")
    return (differs,)


def parse_initial_controllers(text: str) -> tuple[InitialController, ...]:
    """Read `id@host:port:directory-id,…`.  Ids, directory ids and endpoints must be unique.  Raises ConfigError."""
    try:
        controllers = tuple(_parse_initial_controller(entry.strip()) for entry in text.split(","))
    except ValueError as error:
        raise ConfigError(f"--initial-controllers: {error}") from error
    for what, values in (
        ("id", [controller.key.id for controller in controllers]),
        ("directory id", [controller.key.directory_id for controller in controllers]),
        ("endpoint", [controller.endpoint for controller in controllers]),
    ):
        if len(set(values)) != len(values):
            raise ConfigError(f"--initial-controllers: two controllers have the same {what}: {text}")
    return controllers


def _parse_initial_controller(entry: str) -> InitialController:
    id_text, at, rest = entry.partition("@")
    endpoint_text, colon, directory_text = rest.rpartition(":")
    if not at or not colon:
        raise ValueError(f"{entry!r} is not id@host:port:directory-id")
    try:
        key = ReplicaKey(parse_replica_id(id_text), directory_id_from_text(directory_text))
    except ValueError as error:
        raise ValueError(f"{entry!r} is not id@host:port:directory-id: {error}") from error
    if key.directory_id.int < RESERVED_DIRECTORY_IDS:
        raise ValueError(f"{directory_text!r} is among the first {RESERVED_DIRECTORY_IDS} UUIDs, which are reserved")
    return InitialController(key, parse_peer(endpoint_text))


def kraft_version_named(features: Sequence[str], release: str | None) -> int | None:
    """The kraft.version that `--feature` and `--release-version` ask for; None if they leave the choice.

    A feature wins over the level of the release (KIP-1022), if the release knows that level.  Raises ConfigError for
    any feature that cannot be used, for one that is given twice, and for a contradiction.
    """
    supported = SUPPORTED_KRAFT_VERSIONS
    level = None
    for text in features:
        name = text.partition("=")[0].strip()
        if name == METADATA_VERSION:
            raise ConfigError(f"--feature {text}: name the release instead, as in --release-version {LATEST}")
        if name != KRAFT_VERSION:
            raise ConfigError(f"--feature {text}: the only feature here is {KRAFT_VERSION}")
        if text.partition("=")[2].strip() not in map(str, range(supported.minimum, supported.maximum + 1)):
            raise ConfigError(f"--feature {text}: expected {KRAFT_VERSION}={supported.minimum} to {supported.maximum}")
        if level is not None:
            raise ConfigError(f"--feature {text}: {KRAFT_VERSION} is given twice, first as {KRAFT_VERSION}={level}")
        level = int(text.partition("=")[2])
    if release is None:
        return level
    newest = kraft_version_of_release(release)
    if level is not None and level > newest:
        raise ConfigError(
            f"--feature {KRAFT_VERSION}={level}: --release-version {release} has no {KRAFT_VERSION} above {newest}"
        )
    # A release with dynamic voters also allows static ones, and so leaves the choice to the other flags.
    return 0 if level is None and newest == 0 else level
