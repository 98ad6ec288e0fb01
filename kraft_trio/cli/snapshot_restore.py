"""`kraft snapshot restore`: a new cluster begins with a snapshot."""

from __future__ import annotations

import os
import random
import time
from contextlib import closing

import click
import trio

from kraft_trio.cli.config_option import config_option, read_config
from kraft_trio.cli.counted import counted
from kraft_trio.cli.format_plan import check_cluster_id
from kraft_trio.cli.output import echo
from kraft_trio.cli.progress import progress
from kraft_trio.cli.restoration import Restoration, plan_restoration, restore
from kraft_trio.cli.snapshot_origin import find_origin, first_epoch
from kraft_trio.config import NodeConfig
from kraft_trio.config.key import MAX_INT64
from kraft_trio.errors import ConfigError
from kraft_trio.protocol.types import OffsetAndEpoch, directory_id_to_text
from kraft_trio.storage.directory import random_directory_id
from kraft_trio.storage.disk import Disk
from kraft_trio.storage.real_disk import RealDisk


@click.command("restore")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@config_option
@click.option("-t", "--cluster-id", required=True, help="The new cluster's id (kraft storage random-uuid).")
@click.option(
    "--end-offset",
    metavar="OFFSET",
    type=click.IntRange(1, MAX_INT64),
    help="Where the snapshot ends, for a FILE whose name does not tell: where the new log begins.",
)
def restore_command(file: str, config_path: str, cluster_id: str, end_offset: int | None) -> None:
    """Begin a new cluster with the state in FILE.

    The node that -c names, whose directory is empty, becomes its only voter.  FILE is a snapshot that was saved, or a
    .checkpoint of a node's, ours or Apache Kafka's; every byte of it is checked first.  Offsets go on where it ends.
    Start the node, and add other voters to it.
    """
    config = read_config(config_path)
    check_cluster_id(cluster_id)
    with closing(RealDisk()) as disk:
        snapshot_id = _snapshot_id(disk, file, cluster_id, end_offset)
        plan = trio.run(_restore, disk, config, file, os.path.getsize(file), snapshot_id, cluster_id)
    summary, key = plan.summary, plan.key
    echo(
        f"Restored {config.metadata_log_dir} from {file}: snapshot {snapshot_id}, "
        f"{counted(summary.record_count, 'record')}, kraft.version {summary.control_state.kraft_version}; "
        f"cluster id {plan.cluster_id}, node id {key.id}, directory id {directory_id_to_text(key.directory_id)}"
    )


async def _restore(
    disk: Disk, config: NodeConfig, file: str, size_in_bytes: int, snapshot_id: OffsetAndEpoch, cluster_id: str
) -> Restoration:
    with progress("checking", size_in_bytes) as bar:
        plan = plan_restoration(
            disk,
            config,
            file,
            snapshot_id,
            cluster_id=cluster_id,
            directory_id=random_directory_id(random.SystemRandom()),
            on_bytes=bar.advance,
        )
    with progress("restoring", size_in_bytes) as bar:
        await restore(disk, config, plan, on_bytes=bar.advance, now_ms=time.time_ns() // 1_000_000)
    return plan


def _snapshot_id(disk: Disk, file: str, cluster_id: str, end_offset: int | None) -> OffsetAndEpoch:
    """Raises ConfigError, StorageError; what is no snapshot is found when it is checked."""
    origin = find_origin(disk, file)
    if origin.cluster_id == cluster_id:
        raise ConfigError(
            f"--cluster-id {cluster_id}: the snapshot is of that cluster; a new one needs an id of its own, so that "
            "neither takes the other's nodes for its own"
        )
    if origin.cluster_id is None:
        echo(
            f"kraft: warning: {file}: of which cluster it is nobody tells; --cluster-id must be that of no other",
            err=True,
        )
    found = origin.snapshot_id
    if found is None:
        if end_offset is None:
            raise ConfigError(f"{file}: neither its name nor {file}.properties tells where it ends: give --end-offset")
        found = OffsetAndEpoch(end_offset, first_epoch(disk, file))
    elif end_offset not in (None, found.offset):
        raise ConfigError(f"--end-offset {end_offset}: the snapshot is {found}")
    if found.offset == 0:
        raise ConfigError(
            f"{file}: snapshot {found} holds the first voters of a cluster and no records: format a new one instead"
        )
    return found
