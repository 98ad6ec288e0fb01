"""What the directory of a node on this machine tells of why the node does not run.  Nothing is locked or changed."""

from __future__ import annotations

from typing import Any, Final

import attrs
import trio

from kraft_trio.cli.recovery import preview_log
from kraft_trio.cli.static_voters_recovery import refusal_of_static_voters
from kraft_trio.config import NodeConfig
from kraft_trio.config.kafka_start import why_kafkas
from kraft_trio.errors import StorageError, StorageFailure
from kraft_trio.protocol.finding import room_text
from kraft_trio.protocol.findings.machines import LITTLE_BYTES
from kraft_trio.protocol.quorum_situation import Claim, Situation, runs_nevertheless
from kraft_trio.protocol.types import Endpoint, OffsetAndEpoch
from kraft_trio.storage.directory import partition_path, read_meta_properties, refuse_lost_directory_id
from kraft_trio.storage.disk import Disk, join
from kraft_trio.storage.partition_files import DAMAGED, QUORUM_STATE
from kraft_trio.storage.quorum_state_check import refuse_missing_quorum_state
from kraft_trio.storage.real_disk import RealDisk

DISK_TIMEOUT_S: Final = 2.0
"""Time in which the disk must answer."""
LOG_TIMEOUT_S: Final = 10.0
"""Time in which the log must be read."""


def own_endpoint(config: NodeConfig) -> Endpoint | None:
    """Where the node itself can be asked as it asks the others: an observer may have no controller listener."""
    protocol = config.security_protocol_of(config.controller_listener_name)
    endpoints = config.advertised_endpoints()
    return next((endpoint for name, endpoint in endpoints if config.security_protocol_of(name) == protocol), None)


async def with_directory(situation: Situation, config: NodeConfig) -> Situation:
    """Look at the directory of the configured node if that does not answer.  A disk that hangs costs DISK_TIMEOUT_S."""
    own = own_endpoint(config)

    def is_own(claim: Claim) -> bool:
        return claim.node_id == config.node_id or (claim.node_id is None and claim.endpoint == str(own))

    silent = [one for one in situation.claims if is_own(one) and one.problem is not None and not runs_nevertheless(one)]
    if not silent:
        return situation
    hangs = f"{config.metadata_log_dir}: the disk did not answer within {DISK_TIMEOUT_S:g} s. Check it."
    found: dict[str, Any] = {"directory_problem": hangs}
    with trio.move_on_after(DISK_TIMEOUT_S):
        found = await trio.to_thread.run_sync(_look, config, abandon_on_cancel=True)
    with trio.move_on_after(LOG_TIMEOUT_S):
        found |= await trio.to_thread.run_sync(_log_facts, config, abandon_on_cancel=True)
    claims = (attrs.evolve(one, **found) if one in silent else one for one in situation.claims)
    return attrs.evolve(situation, claims=tuple(claims))


def _look(config: NodeConfig) -> dict[str, Any]:
    """The fields of the node's claim.  A witness has the controllers' records, and tells nothing of the other nodes."""
    disk = RealDisk()
    try:
        is_kafkas = None if config.witness else why_kafkas(disk, config) is not None
        return {"is_kafkas": is_kafkas, "directory_problem": _problem(disk, config, is_kafkas=is_kafkas is True)}
    finally:
        disk.close()


def _log_facts(config: NodeConfig) -> dict[str, Any]:
    """What the log of a stopped node tells; empty if it cannot be read."""
    disk = RealDisk()
    try:
        if not disk.exists(partition_path(config.metadata_log_dir, config.topic_name)):
            return {}
        return {"log_end": trio.run(_log_end, disk, config)}
    except (StorageError, StorageFailure, OSError):
        return {}
    finally:
        disk.close()


async def _log_end(disk: Disk, config: NodeConfig) -> OffsetAndEpoch:
    log = preview_log(disk, config, 0)
    await log.close()
    return log.end


def _problem(disk: Disk, config: NodeConfig, *, is_kafkas: bool) -> str | None:
    try:
        problem = directory_problem(disk, config)
        # Kafka goes by what its file says.
        return problem or (None if is_kafkas else trio.run(refusal_of_static_voters, disk, config))
    except (StorageError, StorageFailure) as error:
        return f"{error}."
    except OSError as error:
        return f"{config.metadata_log_dir}: cannot be read: {error.strerror or error}."


def directory_problem(disk: Disk, config: NodeConfig) -> str | None:
    """Why no node can run there, or ended there, with the remedy; None if the directory does not tell."""
    directory = config.metadata_log_dir
    if not disk.exists(directory):
        return f"{directory}: there is no such directory. Mount its disk."
    try:
        properties = read_meta_properties(disk, directory, config.node_id)
        if properties is not None:
            refuse_lost_directory_id(disk, directory, properties)
    except StorageError as error:
        return f"{error}."
    if properties is None:
        return f"{directory}: not formatted. Mount its disk."
    if properties.node_id != config.node_id:
        return f"{directory}: formatted for node {properties.node_id}, not for node.id={config.node_id}."
    partition = partition_path(directory, config.topic_name)
    path = join(partition, DAMAGED)
    if disk.exists(path):
        noted = disk.read_bytes(path).decode("utf-8", "replace").strip()
        return f"{path}: a read found damage: {noted}. Replace the disk."
    try:
        if not disk.exists(join(partition, QUORUM_STATE)):
            refuse_missing_quorum_state(disk, partition)
    except StorageError as error:
        return f"{error}."
    free_bytes = disk.free_bytes(directory)
    if free_bytes is not None and free_bytes < LITTLE_BYTES:
        return f"{directory}: the disk has {room_text(free_bytes)} left. A node whose disk is full ends: make room."
    return None
