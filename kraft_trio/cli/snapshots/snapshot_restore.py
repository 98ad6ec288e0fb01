"""`kraft snapshot restore`: starts a new cluster from a snapshot."""

from __future__ import annotations

import os
import random
import time
from contextlib import closing

import click
import trio

from kraft_trio.cli.directory.format_plan import check_cluster_id
from kraft_trio.cli.directory.restoration import Restoration, plan_restoration, restore
from kraft_trio.cli.snapshots.snapshot_origin import find_origin, first_epoch
from kraft_trio.cli.terminal.config_option import config_option, read_config
from kraft_trio.cli.terminal.output import counted, echo
from kraft_trio.cli.terminal.paths import ExistingPath
from kraft_trio.cli.terminal.progress import progress
from kraft_trio.cli.terminal.whole_number import WholeNumber
from kraft_trio.config import NodeConfig
from kraft_trio.config.key import MAX_INT64
from kraft_trio.errors import ConfigError
from kraft_trio.protocol.types import OffsetAndEpoch, directory_id_to_text
from kraft_trio.storage.directory.directory import random_directory_id
from kraft_trio.storage.disk.disk import Disk
from kraft_trio.storage.disk.real_disk import RealDisk


@click.command("restore")
@click.argument("file", type=ExistingPath(dir_okay=False))
@config_option
@click.option("-t", "--cluster-id", required=True, help="The new cluster's id (see kraft storage random-uuid).")
@click.option(
    "--end-offset",
    metavar="OFFSET",
    type=WholeNumber(1, MAX_INT64),
    help="The snapshot's end offset (exclusive), if FILE's name does not give it.",
)
def restore_command(file: str, config_path: str, cluster_id: str, end_offset: int | None) -> None:
    """Start a new cluster with the state in FILE.

    The node that -c names becomes its only voter; its directory must be empty.  FILE is a saved snapshot or a node's
    .checkpoint file, from kraft-trio or Apache Kafka.  The command first checks every byte of it.  Offsets continue
    where the snapshot ends.  Afterwards, start the node and add other voters.
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
    """Raises ConfigError, StorageError.  Whether the file is a snapshot at all is checked later."""
    origin = find_origin(disk, file)
    if origin.cluster_id == cluster_id:
        raise ConfigError(
            f"--cluster-id {cluster_id}: this is the snapshot's own cluster; the new cluster needs a new id, "
            "so that the nodes of both never mix"
        )
    if origin.cluster_id is None:
        echo(
            f"kraft: warning: {file}: its cluster is unknown; make sure that --cluster-id is not that cluster's id",
            err=True,
        )
    found = origin.snapshot_id
    if found is None:
        if end_offset is None:
            raise ConfigError(f"{file}: neither its name nor {file}.properties gives its end offset: give --end-offset")
        found = OffsetAndEpoch(end_offset, first_epoch(disk, file))
    elif end_offset not in (None, found.offset):
        raise ConfigError(f"--end-offset {end_offset}: the snapshot is {found}")
    if found.offset == 0:
        raise ConfigError(
            f"{file}: snapshot {found} holds the first voters of a cluster and no records: format a new cluster instead"
        )
    return found
