"""`kraft_trio.sync`: a node used from plain threads."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import UUID

import pytest
import trio

from examples.bank import SERDE, Bank, Command, Deposit, NotEnoughMoney, Transfer
from kraft_trio import (
    Committed,
    EncodeError,
    NodeClosedError,
    NodeConfig,
    NotAppendedError,
    OutcomeUnknownError,
    StorageFailure,
    sync,
)
from kraft_trio.protocol.read_barrier import ReadIndex
from tests.support.single_voter import single_voter


@pytest.fixture
def config(tmp_path: Path) -> NodeConfig:
    return single_voter(tmp_path)


class Mistaken(Bank):
    def apply(self, record: Committed[Command]) -> int:
        raise ValueError("a mistake in apply")


def test_calls_give_the_results_and_errors_of_the_node(config: NodeConfig) -> None:
    with sync.open_node(config, serde=SERDE, state_machine=Bank()) as node:
        assert node.wait_for_leader().leader_id == 1
        request_id = node.new_request_id()
        assert node.execute(Deposit("alice", 10), request_id) == 10
        assert node.execute(Deposit("alice", 10), request_id) == 10
        with pytest.raises(NotEnoughMoney):
            node.execute(Transfer("alice", "bob", 11))
        with pytest.raises(EncodeError):
            node.append(["no command"])  # type: ignore[list-item]
        [offset] = node.append([Deposit("bob", 5)])
        node.wait_until_applied(offset)
        assert node.read_barrier() > offset
        committed = node.committed(offset)
        assert next(committed).value == Deposit("bob", 5)
        committed.close()
        assert next(node.changes()) == node.view
        assert node.stale.offset > offset
        assert node.metrics.values()["current-leader"] == 1
        assert node.take_snapshot() is not None
    with pytest.raises(NodeClosedError):
        node.read_barrier()
    with pytest.raises(NotAppendedError, match="the node has stopped"):
        node.execute(Deposit("alice", 10))


def test_several_threads_call_at_once(config: NodeConfig) -> None:
    with sync.open_node(config, serde=SERDE, state_machine=Bank()) as node, ThreadPoolExecutor(8) as pool:
        balances = list(pool.map(lambda _: node.execute(Deposit("alice", 1)), range(50)))
    assert sorted(balances) == list(range(1, 51))


def test_a_call_fails_when_its_time_is_over(config: NodeConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    notes: list[str] = []

    async def parked() -> int:
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            notes.append("cancelled in the node's thread")
            raise

    with sync.open_node(config, serde=SERDE, state_machine=Bank()) as node:
        monkeypatch.setattr(node._node, "read_barrier", parked)
        with pytest.raises(TimeoutError), sync.fail_after(0.01), sync.fail_after(60):
            node.read_barrier()
        assert notes == ["cancelled in the node's thread"]
        with sync.fail_after(60):
            assert node.execute(Deposit("alice", 1)) == 1


def test_a_fault_comes_out_as_it_is(config: NodeConfig) -> None:
    def use_until_it_ends() -> None:
        with sync.open_node(config, serde=SERDE, state_machine=Mistaken()) as node:
            node.append([Deposit("alice", 1)])
            for _ in node.changes():
                pass

    with pytest.raises(ValueError, match="a mistake in apply"):
        use_until_it_ends()


@pytest.mark.parametrize("waits", ["for records", "for a barrier"])
def test_who_waits_hears_of_a_fault_within_the_block(
    config: NodeConfig, monkeypatch: pytest.MonkeyPatch, waits: str
) -> None:
    """The node has ended then, though its block has not, and it keeps its lock until the block does."""
    errors: list[Exception] = []

    def wait(node: sync.Node[Command, int]) -> None:
        try:
            if waits == "for a barrier":
                node.read_barrier()
            for _ in node.committed():
                seen.set()
        except (NodeClosedError, StorageFailure) as error:
            errors.append(error)

    def use() -> None:
        with sync.open_node(config, serde=SERDE) as node:
            node.append([Deposit("alice", 1)])
            if waits == "for a barrier":
                monkeypatch.setattr(node._node.tree.read_indexes, "read_index", beyond_the_end)
                seen.set()
            waiting = threading.Thread(target=wait, args=(node,), daemon=True)
            waiting.start()
            assert seen.wait(60)
            node._thread.read(lambda: node._node.tree._reserve.end(StorageFailure("injected")))
            waiting.join(60)
            assert not waiting.is_alive()

    async def beyond_the_end() -> ReadIndex:
        return ReadIndex(10**6, is_by_lease=False)

    seen = threading.Event()
    with pytest.raises(StorageFailure, match="injected"):
        use()
    assert errors


def test_a_call_ends_with_the_thread_of_its_node(config: NodeConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    began, errors = threading.Event(), []

    async def parked() -> int:
        began.set()
        await trio.sleep_forever()

    def read(node: sync.Node[Command, int]) -> None:
        try:
            node.read_barrier()
        except NodeClosedError as error:
            errors.append(error)

    with sync.open_node(config, serde=SERDE, state_machine=Bank()) as node:
        monkeypatch.setattr(node._node, "read_barrier", parked)
        reader = threading.Thread(target=read, args=(node,), daemon=True)
        reader.start()
        began.wait()
    reader.join(60)
    assert len(errors) == 1


def test_a_command_cut_off_by_the_end_is_unknown(config: NodeConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    began, errors = threading.Event(), []

    async def parked(_command: Command, _request_id: UUID | None) -> int:
        began.set()
        await trio.sleep_forever()

    def deposit(node: sync.Node[Command, int], request_id: UUID) -> None:
        try:
            node.execute(Deposit("alice", 1), request_id)
        except OutcomeUnknownError as error:
            errors.append(error.request_id)

    with sync.open_node(config, serde=SERDE, state_machine=Bank()) as node:
        monkeypatch.setattr(node._node, "execute", parked)
        request_id = node.new_request_id()
        caller = threading.Thread(target=deposit, args=(node, request_id), daemon=True)
        caller.start()
        began.wait()
    caller.join(60)
    assert errors == [request_id]


def test_errors_of_the_block_come_out_and_the_node_closes(config: NodeConfig) -> None:
    with pytest.raises(KeyError), sync.open_node(config, serde=SERDE, state_machine=Bank()):
        raise KeyError("mine")
    with sync.open_node(config, serde=SERDE, state_machine=Bank()) as node:
        assert node.execute(Deposit("alice", 1)) == 1


def test_a_leadership_tells_when_it_is_over(config: NodeConfig) -> None:
    with sync.open_node(config, serde=SERDE, state_machine=Bank()) as node:
        with node.leadership() as term:
            node.append([Deposit("alice", 1)], epoch=term.epoch)
            assert not term.has_ended
        assert not term.was_interrupted
        with node.leadership() as term:
            resigning = threading.Thread(target=node.resign)
            resigning.start()
            resigning.join()
            assert term.has_ended
        assert term.was_interrupted


def test_a_directory_is_formatted_once(tmp_path: Path) -> None:
    config = NodeConfig(
        node_id=1,
        listeners="CONTROLLER://127.0.0.1:1",
        quorum_bootstrap_servers="127.0.0.1:1",
        metadata_log_dir=str(tmp_path / "new"),
    )
    formatted = [sync.ensure_formatted(config, "ySvf4iIwQ5a13rqtClr5pg", {1: "127.0.0.1:1"}) for _ in range(2)]
    assert formatted == [True, False]
