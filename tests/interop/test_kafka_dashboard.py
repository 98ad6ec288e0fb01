"""The dashboard of a quorum of Kafka's own controllers: what they tell is shown, and the rest is "not told"."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import trio

from harness.waiting import WAIT_SECONDS
from kraft_trio.dashboard.board import board_of
from kraft_trio.dashboard.quorum_watch import QuorumWatch
from kraft_trio.protocol.types import Endpoint
from kraft_trio.wire.tcp_network import TcpNetwork
from tests.interop.kafka_controllers import Controllers


async def board_when(port: int, is_so: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    watch = QuorumWatch(
        TcpNetwork(),
        lambda: [Endpoint("127.0.0.1", port)],
        fetch_timeout_ms=2000,
        wall_clock_ms=lambda: time.time_ns() // 1_000_000,
    )
    with trio.fail_after(WAIT_SECONDS):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch.run)
            with watch.looking():
                while True:
                    await watch.news.wait()
                    board = board_of(watch, {})
                    if is_so(board):
                        nursery.cancel_scope.cancel()
                        break
    return board


def test_controllers_of_kafka_are_shown(controllers: Controllers) -> None:

    def is_shown(board: dict[str, Any]) -> bool:
        told = {finding["code"] for finding in board["findings"]}
        return board["leaderId"] == 1 and bool(board["voters"]) and "no-broker" in told

    board = trio.run(board_when, controllers.ports[1], is_shown)
    assert board["epoch"] >= 1
    [claim] = [claim for claim in board["claims"] if claim["nodeId"] == 1]
    assert (claim["problem"], claim["leaderId"], claim["role"]) == (None, 1, None)
    [voter] = board["voters"]
    assert (voter["id"], voter["isLeader"], voter["health"], voter["vitals"]) == (1, True, "up", {})
    assert [survival["spare"] for survival in board["survival"]] == [0]
