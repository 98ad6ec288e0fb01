"""`deploy/compose/`: what it formats fits what its nodes announce, and a lost volume is not formatted as a voter's."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from kraft_trio.cli.directory.format_plan import parse_initial_controllers
from kraft_trio.config import NodeConfig, load_config
from tests.deploy.test_examples import DEPLOY

COMPOSE = DEPLOY / "compose" / "compose.yaml"
NODE_IDS = (1, 2, 3)


def services() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = yaml.safe_load(COMPOSE.read_text())["services"]
    return found


def configured(service: dict[str, Any]) -> NodeConfig:
    """The configuration that a service finds where the image expects it."""
    [given] = service["configs"]
    assert given["target"] == "/etc/kraft/node.properties"
    file = yaml.safe_load(COMPOSE.read_text())["configs"][given["source"]]["file"]
    loaded = load_config(COMPOSE.parent / file)
    assert not loaded.warnings
    return loaded.config


def formats_with(tmp_path: Path, service: dict[str, Any]) -> list[str]:
    """The arguments that a service gives to `kraft`, with `tmp_path` for the other nodes' volumes."""
    program = tmp_path / "kraft"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    program.chmod(0o700)
    [script] = service["command"]
    told = subprocess.run(
        [*service["entrypoint"], script.replace("$$", "$").replace("/others", str(tmp_path / "others"))],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", **service["environment"]},
        capture_output=True,
        text=True,
        check=True,
    )
    return told.stdout.splitlines()


@pytest.mark.parametrize("node_id", NODE_IDS)
def test_a_volume_becomes_that_of_the_voter_that_its_node_announces(tmp_path: Path, node_id: int) -> None:
    formats, node = services()[f"format-{node_id}"], services()[f"node-{node_id}"]
    config = configured(node)
    assert configured(formats) == config
    assert config.node_id == node_id
    *arguments, voters = formats_with(tmp_path, formats)
    assert arguments[:3] == ["storage", "format", "--ignore-formatted"]
    listed = parse_initial_controllers(voters.removeprefix("--initial-controllers="))
    assert [controller.key.id for controller in listed] == list(NODE_IDS)
    assert listed[node_id - 1].endpoint == config.advertised_endpoint("CONTROLLER")
    assert [controller.endpoint for controller in listed] == list(config.quorum_bootstrap_servers)


@pytest.mark.parametrize("node_id", NODE_IDS)
def test_a_blank_volume_joins_once_another_node_has_run(tmp_path: Path, node_id: int) -> None:
    formats = services()[f"format-{node_id}"]
    others = {name.partition(":")[2] for name in formats["volumes"]} - {"/var/lib/kraft"}
    assert others == {f"/others/{other}:ro" for other in NODE_IDS if other != node_id}
    last = max(set(NODE_IDS) - {node_id})
    directory = configured(services()[f"node-{last}"]).metadata_log_dir.replace("/var/lib/kraft", f"others/{last}")
    topic = tmp_path / directory / "orders-0"
    topic.mkdir(parents=True)
    (topic / "00000000000000000000-0000000000.checkpoint").touch()
    assert formats_with(tmp_path, formats)[-1].startswith("--initial-controllers=")
    (topic / "quorum-state").touch()
    assert formats_with(tmp_path, formats)[-1] == "--no-initial-controllers"


@pytest.mark.parametrize("node_id", NODE_IDS)
def test_a_node_waits_until_all_volumes_are_formatted(node_id: int) -> None:
    node = services()[f"node-{node_id}"]
    completed = {"condition": "service_completed_successfully"}
    assert node["depends_on"] == {f"format-{each}": completed for each in NODE_IDS}
    assert node["volumes"] == [f"node-{node_id}:/var/lib/kraft"]


@pytest.mark.parametrize("node_id", NODE_IDS)
def test_clients_of_the_machine_reach_the_address_that_a_node_announces(node_id: int) -> None:
    node = services()[f"node-{node_id}"]
    config = configured(node)
    announced = config.advertised_endpoint("CLIENT")
    [bound] = [listener.endpoint.port for listener in config.listeners if listener.name == "CLIENT"]
    assert node["ports"] == [f"{announced.host}:{announced.port}:{bound}"]
    assert announced.host == "127.0.0.1"


def test_containers_are_confined_and_have_time_to_hand_over() -> None:
    for name, service in services().items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        if name.startswith("node-"):
            grace = int(service["stop_grace_period"].removesuffix("s"))
            assert grace * 1000 > configured(service).shutdown_grace_ms
