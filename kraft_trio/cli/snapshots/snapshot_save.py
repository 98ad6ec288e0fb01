"""`kraft snapshot save`: backs up a running quorum's state."""

from __future__ import annotations

import os
from contextlib import closing
from typing import Final

import click
import trio

from kraft_trio.cli.quorum.quorum_options import node_options
from kraft_trio.cli.snapshots.snapshot_origin import origin_path, write_origin
from kraft_trio.cli.snapshots.snapshot_take import nodes_of
from kraft_trio.cli.terminal.json_option import echo_json, id_fields, json_option
from kraft_trio.cli.terminal.output import counted, echo
from kraft_trio.cli.terminal.paths import NamedPath
from kraft_trio.cli.terminal.progress import progress
from kraft_trio.cli.terminal.timeout_option import timeout_option
from kraft_trio.client.snapshot_saver import SavedSnapshot, SnapshotSaver
from kraft_trio.errors import ConfigError, DiskFullError, StorageError
from kraft_trio.protocol.types import Endpoint
from kraft_trio.security.client_network import client_network
from kraft_trio.storage.disk.disk import Disk
from kraft_trio.storage.disk.failures import storage_failure
from kraft_trio.storage.disk.real_disk import RealDisk
from kraft_trio.wire.network import Network

SUFFIX: Final = ".checkpoint"
"""Ends the name of a saved snapshot.  So a directory that is not there is not taken for the name of a file."""


@click.command()
@node_options
@timeout_option(help="How long to wait for the next byte, across lost connections and elections.")
@click.argument("file", type=NamedPath())
@json_option
@click.pass_context
def save(
    context: click.Context,
    bootstrap_controller: str | None,
    config_path: str | None,
    command_config: str | None,
    timeout_ms: int,
    file: str,
    as_json: bool,
) -> None:
    """Copy a running quorum's newest snapshot to FILE.

    Everything in a snapshot is committed.  If FILE is a directory, the snapshot keeps its own name there.  Otherwise
    the name of FILE must end with .checkpoint.  Until it is complete and checked, it is called FILE.part.
    FILE.properties next to it records its id and cluster.  Existing files are never overwritten.

    For the current state of a quorum of kraft-trio, first take a new snapshot (kraft snapshot take).  Of controllers of
    Apache Kafka, the current state is saved: their newest snapshot, and what has been committed since.

    \b
    Example:
      kraft snapshot save --bootstrap-controller a:9093 /backups
    """
    nodes = nodes_of(context, bootstrap_controller, config_path, and_its_quorum=True)
    saved = trio.run(_save, nodes, client_network(command_config or config_path), *_place(file), timeout_ms)
    summary, path = saved.summary, os.path.normpath(saved.path)
    if as_json:
        echo_json(
            {
                "file": path,
                "snapshotId": id_fields(summary.snapshot_id),
                "clusterId": saved.cluster_id,
                "records": summary.record_count,
                "bytes": summary.size_in_bytes,
            }
        )
        return
    echo(
        f"Saved {path}: snapshot {summary.snapshot_id} of cluster {saved.cluster_id or 'unknown'}, "
        f"{counted(summary.record_count, 'record')}, {counted(summary.size_in_bytes, 'byte')}"
    )


def _place(file: str) -> tuple[str, str | None]:
    """The directory, and the name unless the snapshot keeps its own.  Raises ConfigError, StorageError."""
    if os.path.isdir(file):
        return file.rstrip("/") or "/", None
    directory, name = os.path.split(file)
    if not name or not os.path.isdir(directory or "."):
        raise ConfigError(f"{file}: there is no directory {directory}")
    if not name.endswith(SUFFIX):
        raise ConfigError(
            f"{file}: there is no such directory; make it, or name a file that ends with {SUFFIX}: {file}{SUFFIX}"
        )
    # The file may be anything, even a node's configuration.
    if os.path.lexists(origin_path(file)):
        raise StorageError(f"{origin_path(file)}: already exists and is not overwritten")
    return directory or ".", name


async def _save(
    nodes: tuple[Endpoint, ...], network: Network, directory: str, name: str | None, timeout_ms: int
) -> SavedSnapshot:
    with closing(RealDisk()) as disk, progress("saving", None) as bar:
        try:
            saved = await SnapshotSaver(nodes, network=network).save(
                disk, directory, name, timeout_ms=timeout_ms, progress=bar.reach
            )
            note_origin(disk, saved)
        except DiskFullError as error:
            raise DiskFullError(
                f"snapshot not saved: {error.__cause__}; free space on that file system, or save it elsewhere"
            ) from error
        return saved


def note_origin(disk: Disk, saved: SavedSnapshot) -> None:
    """Write the note.  If that fails, delete the snapshot, so that the next attempt can use the same name.

    Raises StorageFailure.
    """
    try:
        write_origin(disk, saved.path, saved.summary.snapshot_id, saved.cluster_id)
    except OSError as error:
        disk.remove(saved.path)
        raise storage_failure(f"{origin_path(saved.path)}: cannot be written", error) from error
