"""Directories of real replicas: what simulated nodes have on their disks after a run, as files."""

from __future__ import annotations

import zlib
from pathlib import Path

import attrs

from kraft_trio.simulation import Cluster, simulate
from kraft_trio.simulation.machine import Machine
from kraft_trio.simulation.script.run import setup_of
from kraft_trio.simulation.script.script import parse_script
from kraft_trio.simulation.setup import CLUSTER_ID
from kraft_trio.storage.directory.meta_properties import META_PROPERTIES, decode_meta_properties, encode_meta_properties

ROOT = "/data"
"""A simulated node's metadata.log.dir."""

STORY = """\
seed {seed}
observers 4
set controller.quorum.election.timeout.ms 200
set controller.quorum.fetch.timeout.ms 400
set metadata.log.segment.bytes 1024
set metadata.log.max.record.bytes.between.snapshots 1000000
set metadata.max.retention.bytes 0
elect 1
{first}
add-voter 4
take-snapshot 1 2 3
wait 100ms
{second}
elect 2
append "in the second epoch"
remove-voter 1
append "without node 1"
elect 3
append "in the third epoch"
settle
stop 1 2 3 4
"""
"""Three leaders, two voter changes, several segments, a snapshot behind which the log may be trimmed."""


def write_directories(folder: Path, cluster_id: str = CLUSTER_ID) -> list[Path]:
    """A directory for each node of a quorum that was stopped; the same files each time.

    Each cluster has directory ids and records of its own.
    """
    seed = 0 if cluster_id == CLUSTER_ID else zlib.crc32(cluster_id.encode())
    first, second = ("\n".join(f'append "{of}{number}{"." * 200}{seed or ""}"' for number in range(8)) for of in "ab")
    script = parse_script(STORY.format(seed=seed, first=first, second=second), "backups")
    directories = []

    async def main(cluster: Cluster) -> None:
        for step in script.steps:
            await step.take(cluster)
        directories.extend(write_disks(cluster, folder, cluster_id))

    simulate(main, setup_of(script.header))
    return directories


def write_disks(cluster: Cluster, folder: Path, cluster_id: str = CLUSTER_ID) -> list[Path]:
    """What the nodes have on their disks now, as of that cluster.

    Left out are those whose disk was damaged, lost or put back at some time.
    """
    whole = [machine for machine in cluster.machines.values() if machine.replica is not None and machine.is_whole]
    return [_export(machine, folder / f"node-{machine.id}", cluster_id) for machine in whole]


def _export(machine: Machine, folder: Path, cluster_id: str) -> Path:
    for directory in (ROOT, machine.partition_path):
        target = folder / Path(directory).relative_to(ROOT)
        target.mkdir(parents=True, exist_ok=True)
        for name in machine.disk.peek_names(directory):
            content = machine.disk.peek(f"{directory}/{name}")
            if content is not None and name != ".lock":
                (target / name).write_bytes(content)
    path = folder / META_PROPERTIES
    properties = decode_meta_properties(str(path), path.read_bytes())
    path.write_bytes(encode_meta_properties(attrs.evolve(properties, cluster_id=cluster_id)))
    return folder
