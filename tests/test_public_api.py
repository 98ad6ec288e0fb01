"""What `import kraft_trio` offers, and what it does not drag in."""

from __future__ import annotations

import ast
import inspect
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import get_type_hints
from uuid import UUID

import attrs
import pytest

import kraft_trio
import kraft_trio.client
from kraft_trio import ConfigError, NodeConfig, StorageError, VoterSet, first_voter, format_node, random_uuid
from kraft_trio.config import parse_config
from kraft_trio.protocol.types import NO_DIRECTORY_ID, directory_id_from_text
from kraft_trio.storage.directory.directory import LockedDirectory, partition_path
from kraft_trio.storage.disk.real_disk import RealDisk
from kraft_trio.storage.log.log import Log
from kraft_trio.storage.log.log_appender import LogConfig

OF_PYTHON = {"Sequence", "Mapping", "None", "Optional", "UUID", "ValueError"}

_CLASS = re.compile(r"\b[A-Z]\w+")
_ERROR = re.compile(r"\b\w+Error\b")


def names_for_the_type_checker() -> dict[str, str]:
    """Name to module, as `if TYPE_CHECKING:` in kraft_trio/__init__.py tells mypy."""
    tree = ast.parse(Path(kraft_trio.__file__).read_text())
    [block] = [node for node in tree.body if isinstance(node, ast.If)]
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(node.module) for node in imports for alias in node.names}


def test_every_public_name_is_what_the_type_checker_believes() -> None:
    expected = names_for_the_type_checker()
    assert sorted(expected) == sorted(kraft_trio.__all__)
    for name, module in expected.items():
        assert getattr(kraft_trio, name) is getattr(sys.modules[module], name)
        assert name in dir(kraft_trio)


def test_what_clients_take_return_and_raise_is_public() -> None:
    """Names in the signatures of their public methods, the errors these raise, and the fields of what they return."""
    mentioned: dict[str, str] = {}
    for client in (kraft_trio.AdminClient, kraft_trio.LogClient):
        for name, method in inspect.getmembers(client, inspect.isfunction):
            if not name.startswith("_"):
                text = " ".join(map(str, method.__annotations__.values()))
                found = [*_CLASS.findall(text), *_ERROR.findall(method.__doc__ or "")]
                mentioned |= dict.fromkeys(found, f"{client.__name__}.{name}")
    for name in kraft_trio.client.__all__:
        public = getattr(kraft_trio.client, name)
        assert public is getattr(kraft_trio, name)
        for field, hint in get_type_hints(public).items() if attrs.has(public) else ():
            mentioned |= dict.fromkeys(_CLASS.findall(str(hint)), f"{name}.{field}")
    assert {name: where for name, where in mentioned.items() if name not in {*kraft_trio.__all__, *OF_PYTHON}} == {}


@pytest.mark.parametrize("name", sorted(set(kraft_trio.__all__) - {"ErrorCode"}))
def test_every_public_name_is_documented(name: str) -> None:
    documented = getattr(kraft_trio, name)
    assert documented.__doc__
    if documented.__module__.startswith(("kraft_trio.client", "kraft_trio.node", "kraft_trio.running")):
        for member, function in inspect.getmembers(documented, inspect.isfunction):
            if function.__qualname__ == f"{name}.{member}" and not member.startswith("_"):
                assert function.__doc__, f"{name}.{member}"


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="open_nodes"):
        _ = kraft_trio.open_nodes


@pytest.mark.parametrize("module", ["kraft_trio", "kraft_trio.protocol.votes", "kraft_trio.protocol.high_watermark"])
def test_the_pure_rules_come_without_trio(module: str) -> None:
    code = f"import sys, {module}; sys.exit(bool({{'trio', 'structlog', 'kraft_trio.node'}} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=600).returncode == 0


def config_of(node_id: int, directory: Path) -> NodeConfig:
    port = 9190 + node_id
    return parse_config(
        {
            "node.id": str(node_id),
            "listeners": f"CONTROLLER://127.0.0.1:{port}",
            "metadata.log.dir": str(directory / f"node-{node_id}"),
        }
    ).config


async def test_a_formatted_node_has_its_identity_and_the_first_voters(tmp_path: Path) -> None:
    configs = [config_of(node_id, tmp_path) for node_id in (1, 2, 3)]
    cluster_id, voters = random_uuid(), VoterSet(map(first_voter, configs))
    assert len({voter.key.directory_id for voter in voters} - {NO_DIRECTORY_ID}) == 3
    disk = RealDisk()
    for config in configs:
        format_node(config, cluster_id, voters)
        directory = config.metadata_log_dir
        with LockedDirectory.open(disk, directory, config.node_id, random.Random(1)) as opened:
            assert opened.meta_properties.cluster_id == cluster_id
            assert opened.meta_properties.directory_id == voters.get(config.node_id).key.directory_id
        log = Log.open(
            disk,
            partition_path(directory, config.topic_name),
            topic_id=config.topic_id,
            static_voters=VoterSet(),
            config=LogConfig(),
            now_ms=lambda: 0,
        )
        assert (log.voters.voters, log.voters.kraft_version, log.voters.came_from_bootstrap) == (voters, 1, True)
        await log.close()
    disk.close()


async def test_a_node_that_joins_is_formatted_without_voters(tmp_path: Path) -> None:
    config, cluster_id = config_of(4, tmp_path), random_uuid()
    format_node(config, cluster_id)
    disk = RealDisk()
    with LockedDirectory.open(disk, config.metadata_log_dir, config.node_id, random.Random(1)) as opened:
        assert opened.meta_properties.cluster_id == cluster_id
        assert opened.meta_properties.directory_id != NO_DIRECTORY_ID
    assert disk.list_directory(partition_path(config.metadata_log_dir, config.topic_name)) == []
    disk.close()


def test_a_refused_formatting_changes_nothing(tmp_path: Path) -> None:
    config, other = config_of(1, tmp_path), config_of(2, tmp_path)
    voters = VoterSet([first_voter(config, UUID(int=1 << 100))])
    with pytest.raises(ConfigError, match="cluster_id: 'mine' is not a UUID"):
        format_node(config, "mine", voters)
    with pytest.raises(ConfigError, match=r"voters: 1, but not node\.id=2"):
        format_node(other, random_uuid(), voters)
    assert list(tmp_path.iterdir()) == []
    format_node(config, random_uuid(), voters)
    with pytest.raises(StorageError, match="already formatted for node 1"):
        format_node(config, random_uuid(), voters)


def test_random_uuids_are_uuids_and_differ() -> None:
    texts = {random_uuid() for _ in range(10)}
    assert len(texts) == 10
    assert all(directory_id_from_text(text).version == 4 for text in texts)
