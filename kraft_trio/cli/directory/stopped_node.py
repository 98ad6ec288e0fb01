"""Why a node on this machine does not run, as far as its directory shows.  Nothing is locked or changed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Any, Final

import attrs
import trio

from kraft_trio.cli.directory.recovery import preview_log
from kraft_trio.cli.directory.static_voters_recovery import refusal_of_static_voters
from kraft_trio.config import NodeConfig
from kraft_trio.config.kafka_start import why_kafkas
from kraft_trio.config.values import parse_endpoint
from kraft_trio.diagnosis.finding import room_text
from kraft_trio.diagnosis.findings.machines import LITTLE_BYTES
from kraft_trio.diagnosis.quorum_situation import Claim, FoundHere, Situation, runs_nevertheless
from kraft_trio.errors import StorageError, StorageFailure
from kraft_trio.protocol.types import Endpoint, OffsetAndEpoch
from kraft_trio.protocol.voter_set import VoterSet
from kraft_trio.storage.directory.directory import partition_path, read_meta_properties, refuse_lost_directory_id
from kraft_trio.storage.directory.quorum_state_check import refuse_missing_quorum_state
from kraft_trio.storage.disk.disk import Disk, join
from kraft_trio.storage.disk.partition_files import DAMAGED, QUORUM_STATE
from kraft_trio.storage.disk.real_disk import RealDisk

DISK_TIMEOUT_S: Final = 2.0
"""Time in which the disk must answer."""
LOG_TIMEOUT_S: Final = 10.0
"""Time in which the log must be read."""


def own_endpoint(config: NodeConfig) -> Endpoint | None:
    """Where the node itself can be asked as it asks the others: an observer may have no controller listener."""
    protocol = config.security_protocol_of(config.controller_listener_name)
    endpoints = config.advertised_endpoints()
    return next((endpoint for name, endpoint in endpoints if config.security_protocol_of(name) == protocol), None)


async def with_directory(situation: Situation, config: NodeConfig, path: str) -> Situation:
    """Look at the directory of the configured node, whose file `path` is, if it does not answer.

    If nobody tells who the voters are, its log tells that, too.  A disk that hangs costs DISK_TIMEOUT_S.
    """
    own = own_endpoint(config)

    def is_own(claim: Claim) -> bool:
        return claim.node_id == config.node_id or (claim.node_id is None and claim.endpoint == str(own))

    silent = [one for one in situation.claims if is_own(one) and one.problem is not None and not runs_nevertheless(one)]
    here = FoundHere(
        config.node_id,
        path,
        is_down=bool(silent),
        bootstrap=tuple(map(str, config.quorum_bootstrap_servers)),
        is_controller="controller" in config.process_roles,
    )
    claims = tuple(
        attrs.evolve(one, bootstrap=here.bootstrap) if is_own(one) and one.problem is None else one
        for one in situation.claims
    )
    situation = attrs.evolve(situation, claims=claims, here=here)
    if not silent and (situation.report is not None or situation.has_told_voters):
        return situation
    hangs = f"{config.metadata_log_dir}: the disk did not answer within {DISK_TIMEOUT_S:g} s. Check it."
    found: dict[str, Any] = {"node_id": config.node_id, "directory_problem": hangs} if silent else {}
    if silent:
        with trio.move_on_after(DISK_TIMEOUT_S):
            found |= await trio.to_thread.run_sync(_look, config, path, abandon_on_cancel=True)
    with trio.move_on_after(LOG_TIMEOUT_S):
        facts = await trio.to_thread.run_sync(_log_facts, config, abandon_on_cancel=True)
        if facts is not None:
            end, voters, more = facts
            found |= {**more, "log_end": end} if silent else {**more, "reported_end": end.offset}
            addresses = tuple((id, str(endpoint)) for id, endpoint in _addresses(config, voters))
            here = attrs.evolve(here, voter_keys=tuple(voter.key for voter in voters), addresses=addresses)
    id_at = {address: id for id, address in here.addresses}
    claims = tuple(
        attrs.evolve(one, **found)
        if one in silent or (is_own(one) and not silent)
        else attrs.evolve(one, node_id=id_at.get(one.endpoint) if one.node_id is None else one.node_id)
        for one in situation.claims
    )
    return attrs.evolve(situation, claims=claims, here=here)


def not_asked(situation: Situation, own: Endpoint | None, asked: Sequence[Endpoint]) -> list[Endpoint]:
    """Where else to ask: this machine's node, the servers in its file, and the voters by the log here."""
    here = situation.here
    if here is None:
        return []
    # A node that was asked at two endpoints has one claim.
    done = {*map(str, asked), *(claim.endpoint for claim in situation.claims)}
    known = {claim.node_id for claim in situation.claims} - {None}
    found = [address for id, address in here.addresses if id not in known]
    if own is not None and here.node_id not in known:
        found.append(str(own))
    further = dict.fromkeys((*found, *here.bootstrap))
    return [parse_endpoint(address) for address in further if address not in done]


def _addresses(config: NodeConfig, voters: VoterSet) -> Iterator[tuple[int, Endpoint]]:
    """The addresses of the listener by which voters ask each other."""
    static = {voter.id: voter.endpoint for voter in config.quorum_voters}
    for voter in voters:
        endpoint = voter.endpoints.get(config.controller_listener_name) or static.get(voter.id)
        if endpoint is not None:
            yield voter.id, endpoint


def _look(config: NodeConfig, path: str) -> dict[str, Any]:
    """The fields of the node's claim.  A witness has the controllers' records, and tells nothing of the other nodes."""
    disk = RealDisk()
    try:
        is_kafkas = None if config.witness else why_kafkas(disk, config) is not None
        problem = _problem(disk, config, is_kafkas=is_kafkas is True)
        return {
            "is_kafkas": is_kafkas,
            "is_witness": config.witness,
            "directory_problem": None if problem is None else _with_file(problem, path),
        }
    finally:
        disk.close()


def _with_file(text: str, path: str) -> str:
    """Complete the commands in it by the file."""
    return re.sub(
        r"`kraft storage (\w+)(?: -c FILE)?", lambda found: f"`kraft storage {found[1]} -c {shlex.quote(path)}", text
    )


def _log_facts(config: NodeConfig) -> tuple[OffsetAndEpoch, VoterSet, dict[str, Any]] | None:
    """Where the log ends, the voters in it, and further fields of the claim; None if it cannot be read."""
    disk = RealDisk()
    try:
        if not disk.exists(partition_path(config.metadata_log_dir, config.topic_name)):
            return None
        return trio.run(_of_log, disk, config)
    except (StorageError, StorageFailure, OSError):
        return None
    finally:
        disk.close()


async def _of_log(disk: Disk, config: NodeConfig) -> tuple[OffsetAndEpoch, VoterSet, dict[str, Any]]:
    properties = read_meta_properties(disk, config.metadata_log_dir, config.node_id)
    log = preview_log(disk, config, 0)
    await log.close()
    more: dict[str, Any] = {
        "node_id": config.node_id,
        "voter_ids": log.voters.voters.ids or None,
        "kraft_version": log.voters.kraft_version,
        "is_controller": "controller" in config.process_roles,
        "is_kafkas": None if config.witness else why_kafkas(disk, config) is not None,
    }
    if properties is not None:
        more |= {"cluster_id": properties.cluster_id, "directory_id": properties.directory_id}
    return log.end, log.voters.voters, more


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
    if disk.is_read_only(directory):
        return (
            f"{directory}: its file system is read-only, as after an error of the disk. Look at the kernel's log "
            "(`dmesg`). If the disk is sound, mount it for writing, and start the node. Otherwise replace the disk."
        )
    free_bytes = disk.free_bytes(directory)
    if free_bytes is not None and free_bytes < LITTLE_BYTES:
        left = room_text(free_bytes)
        return f"{directory}: the disk has {left} left. A node whose disk is full ends: make room, then start it."
    return None
