"""The examples of `deploy/`: they load, they name what exists, and nodes accept their configuration."""

from __future__ import annotations

import configparser
import json
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.kafka import LIBRARIES, why_no_kafka
from kraft_trio.cli.directory.format_plan import parse_initial_controllers
from kraft_trio.config import NodeConfig, load_config
from kraft_trio.config.properties import VARIABLES_OF_COMMANDS
from kraft_trio.metrics.definitions import COLLECTED_AT, METRICS

REPOSITORY = Path(__file__).parent.parent.parent
DEPLOY = REPOSITORY / "deploy"
ALERTS = DEPLOY / "prometheus" / "alerts.yml"
ALERTS_TEST = DEPLOY / "prometheus" / "alerts_test.yml"
UNIT = DEPLOY / "systemd" / "kraft.service"
KAFKAS_METRICS = (
    "ActiveControllerCount",
    "OfflinePartitionsCount",
    "ActiveBrokerCount",
    "FencedBrokerCount",
    "MetadataErrorCount",
)
"""Of the MBeans `kafka.controller:type=KafkaController`."""
KAFKAS_NAMES = {f"kafka_controller_kafkacontroller_{name.lower()}" for name in KAFKAS_METRICS}
"""As the example rules of the JMX exporter and Strimzi's name them, with `lowercaseOutputName`."""
KNOWN_METRICS = {COLLECTED_AT, *(metric.prometheus_name for metric in METRICS), *KAFKAS_NAMES}
VARIABLE = re.compile(r"\{\{.*?\}\}")
METRIC_NAME = re.compile(r"\b(?:kafka|kraft)_\w+")
MOST_EXPOSED = 15
"""The unit's exposure by `systemd-analyze security`, in tenths; a unit without any restriction has 96."""


def alerts() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


def dashboard_queries() -> Iterator[str]:
    dashboard = json.loads((DEPLOY / "grafana" / "quorum.json").read_text())
    yield from (target["expr"] for panel in dashboard["panels"] for target in panel["targets"])
    yield from (v["query"]["query"] for v in dashboard["templating"]["list"] if v["type"] == "query")


def resources() -> dict[str, dict[str, Any]]:
    return {one["kind"]: one for one in yaml.safe_load_all((DEPLOY / "kubernetes" / "quorum.yaml").read_text())}


def pod() -> dict[str, Any]:
    found: dict[str, Any] = resources()["StatefulSet"]["spec"]["template"]["spec"]
    return found


def formatted(tmp_path: Path, name: str) -> tuple[NodeConfig, list[str]]:
    """The configuration that the init container of a pod writes, and the arguments that it gives to `kraft`."""
    settings = resources()["ConfigMap"]["data"]
    (tmp_path / "node.properties").write_text(settings["node.properties"])
    program = tmp_path / "kraft"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    program.chmod(0o700)
    written = tmp_path / "written"
    written.mkdir()
    [script] = pod()["initContainers"][0]["args"]
    here = script.replace("/etc/kraft-template", str(tmp_path)).replace("/etc/kraft/", f"{written}/")
    environment = {name: settings[name] for name in ("CLUSTER_ID", "VOTERS")}
    told = subprocess.run(
        ["sh", "-euc", here],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "POD": name, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = load_config(written / "node.properties")
    assert not loaded.warnings
    return loaded.config, told.stdout.splitlines()


def test_alerts_and_dashboard_name_metrics_that_exist() -> None:
    queries = [*(rule["expr"] for rule in alerts()), *dashboard_queries()]
    named = {name for query in queries for name in METRIC_NAME.findall(re.sub(r'"[^"]*"', "", query))}
    assert named
    assert named <= KNOWN_METRICS


@pytest.mark.skipif(why_no_kafka() is not None, reason=str(why_no_kafka()))
def test_kafka_has_the_metrics_of_the_alerts() -> None:
    classes = b"".join(
        archive.read(name)
        for jar in LIBRARIES.glob("kafka-metadata-[0-9]*.jar")
        for archive in [zipfile.ZipFile(jar)]
        for name in archive.namelist()
        if name.endswith("Metrics.class")
    )
    assert [name for name in KAFKAS_METRICS if name.encode() not in classes] == []


def test_every_alert_is_tested_to_fire_and_to_be_silent() -> None:
    names = {rule["alert"] for rule in alerts()}
    checks = [check for test in yaml.safe_load(ALERTS_TEST.read_text())["tests"] for check in test["alert_rule_test"]]
    assert {check["alertname"] for check in checks if check.get("exp_alerts")} == names
    assert {check["alertname"] for check in checks if not check.get("exp_alerts")} == names


def test_the_expected_texts_of_alerts_are_those_of_their_rules() -> None:
    """promtool compares them, too, where it is installed."""
    said = {rule["alert"]: rule["annotations"] for rule in alerts()}
    for test in yaml.safe_load(ALERTS_TEST.read_text())["tests"]:
        for check in test["alert_rule_test"]:
            for expected in check.get("exp_alerts", ()):
                for name, text in expected["exp_annotations"].items():
                    pattern = ".+".join(map(re.escape, VARIABLE.split(said[check["alertname"]][name])))
                    assert re.fullmatch(pattern, text), (test["name"], check["alertname"], text)


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_accepts_the_alerts() -> None:
    for arguments in (["check", "rules", str(ALERTS)], ["test", "rules", str(ALERTS_TEST)]):
        done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("node_id", [0, 1, 2])
def test_a_pod_formats_the_voter_that_its_own_configuration_announces(tmp_path: Path, node_id: int) -> None:
    config, arguments = formatted(tmp_path, f"kraft-{node_id}")
    [voters] = [one for one in arguments if one.startswith("--initial-controllers=")]
    listed = parse_initial_controllers(voters.partition("=")[2])
    assert config.node_id == node_id
    [own] = [controller for controller in listed if controller.key.id == node_id]
    assert own.endpoint == config.advertised_endpoint("CONTROLLER")
    assert [controller.endpoint for controller in listed] == list(config.quorum_bootstrap_servers)
    assert arguments[:3] == ["storage", "format", "--ignore-formatted"]


def test_probes_ask_the_http_listener(tmp_path: Path) -> None:
    config, _ = formatted(tmp_path, "kraft-0")
    [container] = pod()["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert [listener.endpoint.port for listener in config.http_listener] == [ports["http"]]
    assert {listener.endpoint.port for listener in config.listeners} == {ports["controller"], ports["client"]}
    paths = {kind: container[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")}
    assert {kind: probe["path"] for kind, probe in paths.items()} == {
        "startup": "/livez",
        "liveness": "/livez",
        "readiness": "/readyz",
    }
    assert all(probe["port"] == "http" for probe in paths.values())


def test_pods_have_their_service_and_a_budget() -> None:
    kinds = resources()
    stateful_set = kinds["StatefulSet"]["spec"]
    assert kinds["Service"]["metadata"]["name"] == stateful_set["serviceName"]
    assert kinds["Service"]["spec"]["publishNotReadyAddresses"] is True
    assert kinds["PodDisruptionBudget"]["spec"]["maxUnavailable"] == 1
    labels = stateful_set["template"]["metadata"]["labels"]
    assert labels == kinds["Service"]["spec"]["selector"] == stateful_set["selector"]["matchLabels"]


def test_pods_are_confined() -> None:
    assert pod()["securityContext"]["runAsNonRoot"] is True
    for container in (*pod()["initContainers"], *pod()["containers"]):
        confined = container["securityContext"]
        assert confined["readOnlyRootFilesystem"] is True
        assert confined["allowPrivilegeEscalation"] is False
        assert confined["capabilities"] == {"drop": ["ALL"]}


def test_status_of_a_pod_has_the_last_words_of_its_node() -> None:
    for container in (*pod()["initContainers"], *pod()["containers"]):
        assert container["terminationMessagePolicy"] == "FallbackToLogsOnError"


def test_a_pod_has_time_to_hand_over(tmp_path: Path) -> None:
    config, _ = formatted(tmp_path, "kraft-0")
    assert pod()["terminationGracePeriodSeconds"] * 1000 > config.shutdown_grace_ms


def test_the_image_runs_as_the_user_of_the_pods() -> None:
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    [user] = [line.split()[1] for line in lines if line.startswith("USER ")]
    assert user == f"{pod()['securityContext']['runAsUser']}:{pod()['securityContext']['runAsGroup']}"


def test_what_the_image_sets_a_container_can_set_otherwise() -> None:
    """An option in a command would win over the variable."""
    text = (DEPLOY / "Dockerfile").read_text()
    assert set(re.findall(r"\bKRAFT_\w+(?==)", text)) == {"KRAFT_CONFIG", "KRAFT_LOG_FORMAT"} <= VARIABLES_OF_COMMANDS
    assert [json.loads(words) for words in re.findall(r"CMD (.+)", text)] == [["kraft", "metrics"], ["server", "start"]]


def test_the_unit_waits_for_a_leader_to_hand_over() -> None:
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(UNIT)
    assert unit.getint("Service", "TimeoutStopSec") * 1000 > 5000


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
@pytest.mark.parametrize(
    ("line", "instead", "complaint"),
    [
        ("UMask=0077", "UMask=0077", ""),
        ("UMask=0077", "UMasks=0077", "Unknown key 'UMasks'"),
        ("TimeoutStopSec=30", "TimeoutStopSec=half a minute", "half a minute"),
    ],
)
def test_systemd_understands_the_unit(tmp_path: Path, line: str, instead: str, complaint: str) -> None:
    """It looks for the programs, too, so this test's Python stands in for the one that is not installed."""
    text = UNIT.read_text().replace("/opt/kraft/bin/kraft", sys.executable)
    assert f"\n{line}\n" in text
    unit = tmp_path / UNIT.name
    unit.write_text(text.replace(f"\n{line}\n", f"\n{instead}\n"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False
    )
    # A line that systemd ignores is no reason for it to fail.
    said = "".join(f"{each}\n" for each in done.stderr.splitlines() if UNIT.name in each)
    assert done.returncode == 0, said
    assert complaint in said
    assert bool(said) == bool(complaint)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_the_unit_is_confined() -> None:
    done = subprocess.run(
        ["systemd-analyze", "security", "--no-pager", "--offline=true", f"--threshold={MOST_EXPOSED}", str(UNIT)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
