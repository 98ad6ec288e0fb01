"""The programs of examples/ run as users run them; tests/testing/test_pytest_plugin.py runs those of the bank."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any, cast
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from examples.lock import Acquire, Lock, Release, locked
from harness.ports import free_ports
from kraft_trio import Committed
from tests.support.programs import ALLOWED_SECONDS, REPOSITORY, run, run_mypy

EXAMPLES = REPOSITORY / "examples"

pytestmark = pytest.mark.xdist_group("examples")


def lines_of(example: str) -> list[str]:
    return run([sys.executable, "-m", f"examples.{example}"]).splitlines()


@pytest.mark.acceptance
@pytest.mark.rotating(3)
def test_a_lock_passes_from_owner_to_owner_with_growing_tokens() -> None:
    first, *others = lines_of("lock")
    tokens = [int(token) for token in re.findall(r"token (\d+):", "\n".join([first, *others]))]
    assert first.endswith("an owner dies")
    assert sorted(line.partition(": ")[2] for line in others) == [f"node {node_id} prints" for node_id in (1, 2, 3)]
    assert tokens == sorted(set(tokens))


async def test_a_lock_released_before_its_refusal_arrives_is_asked_for_again() -> None:
    lock = Lock()

    class OneOwnerAtFirst:
        """A node that applies the owner's release between the refusal and its arrival."""

        offset = 0

        async def execute(self, command: Acquire | Release) -> int | None:
            token = self.apply(command)
            if isinstance(command, Acquire) and token is None:
                self.apply(Release(lock.token))
            return token

        def apply(self, command: Acquire | Release) -> int | None:
            self.offset += 1
            return lock.apply(Committed(value=command, offset=self.offset, epoch=1, timestamp_ms=5_000))

    node = OneOwnerAtFirst()
    assert await node.execute(Acquire(ttl_ms=10_000)) == 1
    async with locked(cast("Any", node), lock, ttl_ms=10_000) as token:
        assert token == 4


@pytest.mark.acceptance
@pytest.mark.rotating(3)
def test_each_job_is_finished_once_also_that_of_a_dead_worker() -> None:
    finished = [line.split(": ") for line in lines_of("job_queue")]
    assert sorted(job for job, _ in finished) == [f"job {number}" for number in (1, 2, 3, 4)]
    assert dict(finished)["job 1"] != "done at attempt 1"


@pytest.mark.acceptance
@pytest.mark.rotating(3)
def test_each_node_sees_the_newest_configuration() -> None:
    lines = lines_of("configuration")
    for node_id in (1, 2, 3):
        seen = [line.partition("=")[2] for line in lines if line.startswith(f"node {node_id}: ")]
        assert seen in (["debug", "info"], ["info"])
    assert len([line for line in lines if line.startswith("refused: ")]) == 1


@pytest.mark.acceptance
@pytest.mark.rotating(3)
def test_the_leaders_task_moves_without_gap_or_repetition() -> None:
    *issuers, in_sequence = lines_of("leader_task")
    assert sorted(issuers) == [f"node {node_id} issues" for node_id in (1, 2, 3)]
    assert in_sequence == "in sequence: True"


@pytest.mark.acceptance
def test_a_node_joins_the_voters_and_leaves_them() -> None:
    assert lines_of("membership") == [
        "voters: [1]",
        "voters: [(1, 0), (2, 0)]",
        "refused: duplicate_voter",
        "voters: [1]",
    ]


@pytest.mark.acceptance
def test_a_state_machine_starts_from_its_snapshot() -> None:
    assert lines_of("tally") == [
        "{b'be': 2, b'not': 1, b'or': 1, b'to': 2}",
        "loaded: 4 words",
        "{b'be': 2, b'is': 1, b'not': 1, b'or': 1, b'that': 1, b'to': 2}",
    ]


def test_each_example_has_thirty_to_eighty_lines() -> None:
    lengths = {path.name: len(path.read_text().splitlines()) for path in EXAMPLES.glob("*.py")}
    assert {name: length for name, length in lengths.items() if not 30 <= length <= 80} == {}


@contextmanager
def serving(node_id: int, addresses: list[str], directory: Path, port: int) -> Iterator[subprocess.Popen[str]]:
    """The service of one node, up."""
    environment = {
        "KRAFT_NODE_ID": str(node_id),
        "KRAFT_LISTENERS": f"CONTROLLER://{addresses[node_id - 1]}",
        "KRAFT_CONTROLLER_QUORUM_BOOTSTRAP_SERVERS": ",".join(addresses),
        "KRAFT_METADATA_LOG_DIR": str(directory / f"node-{node_id}"),
    }
    command = [sys.executable, "-m", "uvicorn", "examples.service:app", "--port", str(port)]
    with start(command, environment) as process:
        try:
            assert process.stderr is not None
            output = []
            for line in process.stderr:
                output.append(line)
                if "Uvicorn running on" in line:
                    break
            else:
                pytest.fail("".join(output))
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=ALLOWED_SECONDS)


def start(command: list[str], environment: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command,
        cwd=REPOSITORY,
        env={**os.environ, **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def ask(method: str, url: str) -> Any:
    """The answer's JSON, or the status of an error."""
    try:
        with urlopen(Request(url, method=method), timeout=ALLOWED_SECONDS) as answer:
            return json.load(answer)
    except HTTPError as error:
        return error.code


@pytest.mark.acceptance
@pytest.mark.parametrize("count", [1, pytest.param(3, marks=pytest.mark.nightly)])
def test_the_service_executes_a_repeated_request_once(count: int, tmp_path: Path) -> None:
    addresses = [f"127.0.0.1:{port}" for port in free_ports(count)]
    with ExitStack() as stack:
        ports = free_ports(count)
        for node_id, port in enumerate(ports, start=1):
            stack.enter_context(serving(node_id, addresses, tmp_path, port))
        urls = [f"http://127.0.0.1:{port}" for port in ports]
        deposit, transfer = (ask("POST", f"{urls[0]}/request-ids") for _ in range(2))
        for url in [*urls, urls[0]]:
            assert ask("PUT", f"{url}/deposits/{deposit}?account=alice&amount=100") == 100
        for url in [*urls, urls[0]]:
            assert ask("PUT", f"{url}/transfers/{transfer}?payer=alice&payee=bob&amount=30") == 70
        another = ask("POST", f"{urls[0]}/request-ids")
        assert ask("PUT", f"{urls[-1]}/transfers/{another}?payer=bob&payee=alice&amount=31") == 409
        assert ask("PUT", f"{urls[-1]}/deposits/{'0' * 32}?account=bob&amount=1") == 422
        assert [ask("GET", f"{url}/balances/bob") for url in urls] == [30] * count


@pytest.mark.acceptance
def test_the_service_ends_with_its_node(tmp_path: Path) -> None:
    own, port = free_ports(2)
    url = f"http://127.0.0.1:{port}"
    with serving(1, [f"127.0.0.1:{own}"], tmp_path, port) as process:
        deposit = ask("POST", f"{url}/request-ids")
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (0, 0))
        with suppress(OSError, HTTPException):  # the service may end before it has answered
            ask("PUT", f"{url}/deposits/{deposit}?account=alice&amount=100")
        assert "File too large" in process.communicate(timeout=ALLOWED_SECONDS)[1]
        assert process.returncode == 1


@pytest.mark.xdist_group("mypy")
def test_the_examples_are_typed() -> None:
    modules = [f"examples.{path.stem}" for path in sorted(EXAMPLES.glob("*.py"))]
    checked = run_mypy(*(f"-m{module}" for module in modules))
    assert checked.returncode == 0, checked.stdout + checked.stderr
