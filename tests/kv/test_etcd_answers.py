"""A gateway of ours gives the answers that etcd 3.7.3 has given (tests/kv/etcd_conversation.py)."""

from __future__ import annotations

import json

from kraft_trio.simulation import Cluster
from tests.kv.etcd_conversation import ANSWERS, CONVERSATION, WATCHES, comparable
from tests.kv.gateways import gateways, kv_setup
from tests.support.on_cluster import on_cluster


@on_cluster(**kv_setup(voters=1))
async def test_the_gateway_answers_as_etcd_does(cluster: Cluster) -> None:
    recorded = json.loads(ANSWERS.read_text())
    async with gateways(cluster) as serving:
        client = serving.clients[1]
        for (path, body, *more), expected in zip(CONVERSATION, recorded["answers"], strict=True):
            status, data = await client.raw(path, body)
            answer = [json.loads(line) for line in data.splitlines()]
            assert [status, comparable(path, answer, *more)] == expected, f"{path} {body}"
        for (create, count), expected in zip(WATCHES, recorded["watches"], strict=True):
            async with client.stream("/v3/watch", {"create_request": create}) as messages:
                answer = [await messages.receive() for _ in range(count)]
            assert comparable("/v3/watch", answer) == expected, create
