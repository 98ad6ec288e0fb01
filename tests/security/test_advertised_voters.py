"""A voter that advertises another one at its own address: with bindings, it cannot vote as that one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from kraft_trio.config import NodeConfig
from kraft_trio.config.values import STANDARD_AUTHORIZER
from kraft_trio.errors import NetworkError
from kraft_trio.protocol.gossip import Advertisement
from kraft_trio.protocol.types import ReplicaKey, directory_id_to_text
from kraft_trio.security.access_control import AccessControl
from kraft_trio.security.client_network import client_network
from kraft_trio.security.credentials import NodeCredentials
from kraft_trio.wire.api import API_VERSIONS, DISCOVER_VOTERS, VOTE, advertised_ranges
from kraft_trio.wire.apis.api_versions import ApiVersionsResponse
from kraft_trio.wire.apis.discover_voters import DiscoverVotersRequest
from kraft_trio.wire.apis.vote import VoteResponse
from kraft_trio.wire.codec import decode_request, encode_response
from kraft_trio.wire.connection import Connection
from kraft_trio.wire.framing import FrameReader
from kraft_trio.wire.network import ImmediateStream
from kraft_trio.wire.tcp_network import TcpNetwork
from tests.security.test_mutual_tls import configs, nodes_of
from tests.support.certificates import tls_keys, write_client_file

BINDINGS = "".join(f'[[voter]]\nprincipal = "User:node-{n}"\nnode-id = {n}\n' for n in (1, 2, 3))
QUICK = {"controller.quorum.fetch.timeout.ms": "300", "controller.quorum.election.timeout.ms": "300"}


class Impostor:
    """Listens where voter 3 does, with its certificate, and grants every vote."""

    def __init__(self, config: NodeConfig, asked_for_another: Callable[[], object]) -> None:
        self._config = config
        self._asked_for_another = asked_for_another
        self.asked_as: set[int] = set()
        """The voters as which it was asked for its vote."""
        self.was_asked = trio.Event()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        network, _ = NodeCredentials.of(TcpNetwork(), self._config)
        listener = await network.listen(self._config.listeners[0].endpoint)
        async with trio.open_nursery() as nursery:
            task_status.started()
            while True:
                nursery.start_soon(self._serve, await listener.accept())

    async def _serve(self, stream: ImmediateStream) -> None:
        async with stream:
            try:
                await self._answer(stream)
            except (NetworkError, trio.BrokenResourceError):
                pass

    async def _answer(self, stream: ImmediateStream) -> None:
        reader = FrameReader(stream, 2**20)
        while (frame := await reader.read()) is not None:
            header, request = decode_request(frame)
            if header.api is API_VERSIONS:
                answer: object = ApiVersionsResponse(apis=advertised_ranges())
            elif header.api is VOTE:
                self.asked_as.add(request.voter_id)
                self.was_asked.set()
                if request.voter_id != 3:
                    self._asked_for_another()
                answer = VoteResponse(vote_granted=True, leader_epoch=request.replica_epoch, topic=request.topic)
            else:
                return
            await stream.send_all(encode_response(header.api, header.version, header.correlation_id, answer))


async def test_a_voter_cannot_vote_as_one_that_it_advertises_at_its_own_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its certificate is good for that address, so TLS alone does not show that another voter is meant."""
    acls = tmp_path / "acl.toml"
    acls.write_text(BINDINGS)
    rules = {
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:node-1;User:node-2;User:node-3",
        "ssl.principal.mapping.rules": "RULE:^CN=([^,]+),.*$/$1/",
        "kraft.acl.file": str(acls),
    }
    judged, refused = trio.Event(), []
    judge = AccessControl.refusal_of_server

    def judging(self: AccessControl, certificate: bytes | None, voter: ReplicaKey) -> str | None:
        reason = judge(self, certificate, voter)
        if reason is not None:
            refused.append(reason)
            judged.set()
        return reason

    monkeypatch.setattr(AccessControl, "refusal_of_server", judging)
    made = configs(tmp_path, range(1, 6), {**rules, **QUICK})
    impostor = Impostor(made[2], judged.set)
    file = write_client_file(tmp_path / "node-3.properties", tls_keys(tmp_path, "node-3"))
    async with trio.open_nursery() as nursery:
        await nursery.start(impostor.run)
        async with nodes_of([made[1]]) as (node,):
            [first, *_] = node.view.voters
            false = Advertisement(first.key, 9, 0, made[2].advertised_endpoints())
            to = made[1].advertised_listeners[0].endpoint
            liar = await Connection.negotiated(await client_network(file).connect(to), "c", 2**20)
            await liar.request(DISCOVER_VOTERS, DiscoverVotersRequest(node.cluster_id, (false,)))
            with trio.fail_after(60):
                await judged.wait()
                await impostor.was_asked.wait()
            await liar.aclose()
            assert impostor.asked_as == {3}
            claimed = directory_id_to_text(first.key.directory_id)
            assert set(refused) == {f"User:node-3 may not speak for node 1 ({claimed})"}
        nursery.cancel_scope.cancel()
