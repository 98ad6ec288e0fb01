"""The gateway on a simulated quorum: what clients see of reads, leases, locks, elections and faults."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

import pytest
import trio
import trio.testing

from kraft_trio.actors.waiting.loop_turns import LoopTurns
from kraft_trio.kv import store
from kraft_trio.kv.budget import MAX_LISTED_OPERATIONS
from kraft_trio.kv.command_serde import PREFIX, CommandSerde
from kraft_trio.kv.gateway.read_turns import KEYS_PER_UNIT, UNITS_PER_TURN
from kraft_trio.kv.gateway.upkeep import Upkeep
from kraft_trio.kv.requests import Advance
from kraft_trio.simulation import Cluster
from kraft_trio.wire.api import FETCH, READ_INDEX
from kraft_trio.wire.descriptor import Api
from tests.kv.gateways import FakeClient, Gateways, b64, gateways, kv_setup
from tests.support.on_cluster import on_cluster
from tests.support.poison import poison
from tests.support.timing import set_timing

KEY = b64("key")


async def get(serving: Gateways, node_id: int, key: str = KEY, **fields: object) -> list[dict[str, str]]:
    status, answer = await serving.clients[node_id].post("/v3/kv/range", {"key": key, **fields})
    assert status == 200, answer
    kvs: list[dict[str, str]] = answer.get("kvs", [])
    return kvs


@on_cluster(**kv_setup(observers=1))
async def test_each_node_reads_what_another_wrote(cluster: Cluster) -> None:
    async with gateways(cluster) as serving:
        for number, client in serving.clients.items():
            value = b64(f"from {number}")
            status, answer = await client.post("/v3/kv/put", {"key": KEY, "value": value})
            assert (status, answer["header"]["revision"]) == (200, str(number + 1))
            for node_id in serving.clients:
                assert [kv["value"] for kv in await get(serving, node_id)] == [value]


@on_cluster(**kv_setup(voters=1))
async def test_pages_of_strangers_can_neither_write_nor_read(cluster: Cluster) -> None:
    """A browser inside the network sends what a page of anybody's wants, as text that needs no leave of the server."""
    async with gateways(cluster) as serving:
        await serving.clients[1].post("/v3/kv/put", {"key": KEY, "value": b64("ours")})
        for origin in ("http://stranger.example", "null", "http://127.0.0.1:2379"):
            headers = {"Origin": origin, "Content-Type": "text/plain"}
            for path in ("/v3/kv/put", "/v3/kv/range", "/v3/watch", "/v3/kv/deleterange"):
                status, answer = await serving.clients[1].post(path, {"key": KEY, "value": b64("theirs")}, headers)
                assert (status, answer["code"]) == (403, 7), path
        for headers in ({"Host": "rebound.example", "Accept-Language": "en"}, {"Sec-Fetch-Site": "cross-site"}):
            status, answer = await serving.clients[1].post("/v3/kv/range", {"key": KEY}, headers)
            assert (status, answer["code"]) == (403, 7), headers
        assert [kv["value"] for kv in await get(serving, 1)] == [b64("ours")]


@on_cluster(**kv_setup())
async def test_gets_at_the_same_time_share_a_round(cluster: Cluster) -> None:
    """Each waits for a read barrier, but many cost a follower no more messages than two."""
    async with gateways(cluster) as serving:
        leader = await cluster.wait_for_leader()
        await serving.clients[1].post("/v3/kv/put", {"key": KEY})
        await cluster.wait_until_alike()
        set_timing(cluster, latency_s=0.01)
        await trio.sleep(1)
        follower = cluster.others(leader)[0].key.id
        host = cluster.machines[follower].host

        async def sent_by_the_follower(serving_id: int, api: Api[Any, Any]) -> int:
            """While a node serves many gets at the same time."""
            before = cluster.network.requests_sent[host, api.key]
            async with trio.open_nursery() as nursery:
                for _ in range(50):
                    nursery.start_soon(get, serving, serving_id)
            return cluster.network.requests_sent[host, api.key] - before

        assert 1 <= await sent_by_the_follower(leader.key.id, FETCH) <= 4
        assert 1 <= await sent_by_the_follower(follower, READ_INDEX) <= 2  # the first get's, and one for all others
        assert 1 <= await sent_by_the_follower(follower, FETCH) <= 4


@on_cluster(**kv_setup(voters=1))
async def test_one_turn_reads_some_keys(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many clients ask for however large ranges, and one of another address waits for few of them."""
    turns, read = LoopTurns.of_this_run(), Counter[int]()
    version_at = store._version_at

    def counting(*arguments: Any) -> Any:
        read[turns.number] += 1
        return version_at(*arguments)

    count = 5 * MAX_LISTED_OPERATIONS * 10
    done: list[str] = []
    async with gateways(cluster) as serving:
        for start in range(0, count, MAX_LISTED_OPERATIONS):
            puts = [{"request_put": {"key": b64(f"{key:04}")}} for key in range(start, start + MAX_LISTED_OPERATIONS)]
            status, _ = await serving.clients[1].post("/v3/kv/txn", {"success": puts})
            assert status == 200
        other = FakeClient(serving.clients[1].app, "other")

        async def ask(client: FakeClient, request: dict[str, str]) -> None:
            _, answer = await client.post("/v3/kv/range", request)
            assert int(answer["count"]) == len(answer["kvs"])
            done.append(answer["count"])

        monkeypatch.setattr(store, "_version_at", counting)
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(ask, serving.clients[1], {"key": b64("\0"), "range_end": b64("\0")})
            nursery.start_soon(ask, other, {"key": b64("0001")})
    assert done == ["1"] + [str(count)] * 5
    assert read.total() == 5 * count + 1
    assert max(read.values()) <= KEYS_PER_UNIT * UNITS_PER_TURN


@on_cluster(**kv_setup())
async def test_a_lease_ends_after_its_time_and_not_before(cluster: Cluster) -> None:
    async with gateways(cluster) as serving:
        client = serving.clients[1]
        await client.post("/v3/lease/grant", {"TTL": 10, "ID": 5})
        await client.post("/v3/kv/put", {"key": KEY, "lease": 5})
        await trio.sleep(9)
        assert await get(serving, 2)
        _, answer = await client.post("/v3/lease/keepalive", {"ID": 5})
        assert answer["result"]["TTL"] == "10"
        await trio.sleep(9.9)
        assert await get(serving, 3)
        await trio.sleep(1.7)
        assert not await get(serving, 3)
        _, answer = await client.post("/v3/lease/keepalive", {"ID": 5})
        assert "TTL" not in answer["result"]
        assert (await client.post("/v3/lease/revoke", {"ID": 5}))[0] == 404


@on_cluster(**kv_setup())
async def test_leases_go_on_after_a_clients_record_has_set_the_time_ahead(cluster: Cluster) -> None:
    async with gateways(cluster) as serving:
        client = serving.clients[1]
        await client.post("/v3/lease/grant", {"TTL": 600, "ID": 5})
        await trio.sleep(2)
        async with cluster.client() as kafka:
            await kafka.produce([CommandSerde().encode(Advance(2**63))])
        await client.post("/v3/lease/grant", {"TTL": 5, "ID": 6})
        await client.post("/v3/kv/put", {"key": KEY, "lease": 6})
        await trio.sleep(8)
        assert not await get(serving, 1)


@on_cluster(**kv_setup())
async def test_no_lease_ends_while_nobody_leads(cluster: Cluster) -> None:
    async with gateways(cluster) as serving:
        await serving.clients[1].post("/v3/lease/grant", {"TTL": 5, "ID": 5})
        await serving.clients[1].post("/v3/kv/put", {"key": KEY, "lease": 5})
        await trio.sleep(2)
        cluster.partition([1], [2], [3])
        await trio.sleep(60)
        cluster.heal()
        await cluster.wait_for_leader()
        assert await get(serving, 1), "the lease has ended while its owner could not renew it"
        await trio.sleep(6)
        assert not await get(serving, 1)


@on_cluster(**kv_setup())
async def test_a_request_id_makes_a_retry_harmless(cluster: Cluster) -> None:
    async with gateways(cluster) as serving:
        headers = {"Kraft-Request-Id": str(cluster.nodes[1].new_request_id())}
        put = {"key": KEY, "value": b64("1"), "prev_kv": True}
        first = await serving.clients[1].post("/v3/kv/put", put, headers)
        await serving.clients[2].post("/v3/kv/put", {"key": KEY, "value": b64("2")})
        again = await serving.clients[3].post("/v3/kv/put", put, headers)
        assert again[0] == first[0] == 200
        assert again[1]["header"]["revision"] == first[1]["header"]["revision"] == "2"
        assert [kv["value"] for kv in await get(serving, 1)] == [b64("2")]
        status, answer = await serving.clients[1].post("/v3/kv/deleterange", {"key": KEY}, headers)
        assert (status, answer["code"]) == (400, 3), "the id is that of a put"
        status, answer = await serving.clients[1].post("/v3/kv/put", put, {"Kraft-Request-Id": "7"})
        assert (status, answer["code"]) == (400, 3)


@on_cluster(**kv_setup())
async def test_without_a_majority_requests_fail_in_time(cluster: Cluster) -> None:
    async with gateways(cluster) as serving:
        leader = await cluster.wait_for_leader()
        await serving.clients[1].post("/v3/kv/put", {"key": KEY})
        alone = cluster.others(leader)[0].key.id
        cluster.partition([alone], [node.key.id for node in cluster.nodes.values() if node.key.id != alone])
        began = trio.current_time()
        status, answer = await serving.clients[alone].post("/v3/kv/range", {"key": KEY})
        assert (status, answer["code"]) == (503, 14)
        status, answer = await serving.clients[alone].post("/v3/kv/put", {"key": KEY})
        assert (status, answer["code"]) == (503, 14)
        assert trio.current_time() - began < 20
        status, answer = await serving.clients[alone].post("/v3/kv/range", {"key": KEY, "serializable": True})
        assert (status, answer["count"]) == (200, "1")
        status, health = await serving.clients[alone].raw("/health", None, method="GET")
        assert (status, b'"health":"false"' in health) == (503, True)


@on_cluster(**kv_setup())
async def test_a_put_without_a_leader_may_take_effect_later(cluster: Cluster) -> None:
    """So its client is not told that nobody has it, as that of a read is."""
    async with gateways(cluster) as serving:
        node = await cluster.wait_for_leader()
        alone = serving.clients[node.key.id]
        cluster.partition([node.key.id], [other.key.id for other in cluster.others(node)])
        await cluster.wait_until(lambda: node.view.leader_id is None)
        status, answer = await alone.post("/v3/kv/range", {"key": KEY})
        assert (status, answer["message"]) == (503, "etcdserver: no leader")
        status, answer = await alone.post("/v3/kv/put", {"key": KEY, "value": b64("late")})
        assert (status, answer["message"]) == (503, "etcdserver: request timed out")
        cluster.network.heal()
        await alone.post("/v3/kv/put", {"key": b64("other")})
        assert [kv["value"] for kv in await get(serving, node.key.id)] == [b64("late")]


@on_cluster(**kv_setup())
async def test_a_lock_passes_on_when_its_lease_ends(cluster: Cluster) -> None:
    async with gateways(cluster) as serving:
        for lease in (1, 2):
            await serving.clients[lease].post("/v3/lease/grant", {"TTL": 3 * lease, "ID": lease})
        lock = {"name": b64("lock")}
        status, first = await serving.clients[1].post("/v3/lock/lock", {**lock, "lease": 1})
        assert (status, first["key"]) == (200, b64("lock/1"))
        with trio.move_on_after(2) as waiting:
            await serving.clients[2].post("/v3/lock/lock", {**lock, "lease": 2})
        assert waiting.cancelled_caught
        assert not await get(serving, 2, b64("lock/2")), "who stops waiting leaves its place"
        status, second = await serving.clients[2].post("/v3/lock/lock", {**lock, "lease": 2})
        assert (status, second["key"]) == (200, b64("lock/2"))
        assert not await get(serving, 1, b64("lock/1"))


@on_cluster(**kv_setup(voters=1))
async def test_who_waits_for_a_lock_longer_than_its_lease_is_told(cluster: Cluster) -> None:
    async with gateways(cluster) as serving:
        for lease, ttl in ((1, 60), (2, 5)):
            await serving.clients[1].post("/v3/lease/grant", {"TTL": ttl, "ID": lease})
        await serving.clients[1].post("/v3/lock/lock", {"name": b64("lock"), "lease": 1})
        status, answer = await serving.clients[1].post("/v3/lock/lock", {"name": b64("lock"), "lease": 2})
        assert (status, answer["message"]) == (500, "etcdserver: requested lease not found")


@on_cluster(**kv_setup())
async def test_an_observer_of_an_election_sees_each_leader(cluster: Cluster) -> None:
    async with gateways(cluster) as serving:
        for lease in (1, 2):
            await serving.clients[1].post("/v3/lease/grant", {"TTL": 60, "ID": lease})
        async with serving.clients[3].stream("/v3/election/observe", {"name": b64("e")}) as leaders:
            campaign = {"name": b64("e"), "lease": 1, "value": b64("one")}
            _, won = await serving.clients[1].post("/v3/election/campaign", campaign)
            assert (await leaders.receive())["result"]["kv"]["value"] == b64("one")
            async with trio.open_nursery() as nursery:
                other = {"name": b64("e"), "lease": 2, "value": b64("two")}
                nursery.start_soon(serving.clients[2].post, "/v3/election/campaign", other)
                await serving.clients[3].post("/v3/election/proclaim", {"leader": won["leader"], "value": b64("1")})
                assert (await leaders.receive())["result"]["kv"]["value"] == b64("1")
                await serving.clients[1].post("/v3/election/resign", {"leader": won["leader"]})
                assert (await leaders.receive())["result"]["kv"]["value"] == b64("two")


@on_cluster(**kv_setup(voters=1))
async def test_the_leader_compacts_old_revisions(cluster: Cluster) -> None:
    async with gateways(cluster, keep_revisions=3) as serving:
        for _ in range(10):
            await serving.clients[1].post("/v3/kv/put", {"key": KEY})
        assert await get(serving, 1, revision=2)
        await trio.sleep(121)
        status, answer = await serving.clients[1].post("/v3/kv/range", {"key": KEY, "revision": 7})
        assert (status, answer["code"]) == (400, 11)
        assert await get(serving, 1, revision=8)


@on_cluster(**kv_setup(settings={"metadata.log.max.record.bytes.between.snapshots": "500"}))
async def test_a_restarted_node_serves_what_its_snapshot_has(cluster: Cluster) -> None:
    async with gateways(cluster) as serving:
        await serving.clients[1].post("/v3/lease/grant", {"TTL": 20, "ID": 9})
        for number in range(20):
            await serving.clients[1].post("/v3/kv/put", {"key": b64(f"{number}"), "lease": 9 if number == 3 else 0})
        machine = cluster.machines[2]
        await machine.stop()
        await machine.start()
        client = serving.start(2)
        _, answer = await client.post("/v3/kv/range", {"key": b64("\0"), "range_end": b64("\0")})
        assert (answer["count"], answer["header"]["revision"]) == ("20", "21")
        await trio.sleep(22)
        _, answer = await client.post("/v3/kv/range", {"key": b64("3")})
        assert "count" not in answer


@on_cluster(**kv_setup(voters=1))
async def test_an_idle_store_writes_nothing(cluster: Cluster) -> None:
    async with gateways(cluster) as serving:
        leader = await cluster.wait_for_leader()
        await serving.clients[1].post("/v3/kv/put", {"key": KEY})
        end = leader.log.end
        await trio.sleep(30)
        assert leader.log.end == end


@on_cluster(**kv_setup(settings={"controller.quorum.fetch.timeout.ms": "30000"}))
async def test_a_leader_that_was_blocked_ends_no_lease_that_is_renewed(cluster: Cluster) -> None:
    """The renewal reaches it after its own next step."""
    async with gateways(cluster) as serving:
        leader = await cluster.wait_for_leader()
        client = serving.clients[cluster.others(leader)[0].key.id]
        await client.post("/v3/lease/grant", {"TTL": 4, "ID": 1})
        await trio.sleep(1)
        machine = cluster.machines[leader.key.id]
        machine.pause()
        await trio.sleep(5)
        machine.resume()
        await client.post("/v3/lease/keepalive", {"ID": 1})
        await trio.sleep(3)
        _, answer = await client.post("/v3/lease/timetolive", {"ID": 1})
        assert answer.get("TTL", "0") != "-1"


@on_cluster(**kv_setup(voters=1))
async def test_the_openapi_document_describes_every_operation(cluster: Cluster) -> None:
    async with gateways(cluster) as serving:
        status, data = await serving.clients[1].raw("/openapi.json", None, method="GET")
        document = json.loads(data)
        assert status == 200
        served = {
            path
            for _, path in serving.clients[1].app.routes
            if not path.startswith(("/v3beta", "/v3alpha", "/v3/kv/lease", "/openapi", "/livez/", "/readyz/"))
        }
        assert set(document["paths"]) == served
        references = set(re.findall(r"#/components/schemas/(\w+)", data.decode()))
        assert references == set(document["components"]["schemas"])
        put = document["components"]["schemas"]["PutRequest"]["properties"]
        assert put["lease"] == {"type": "string", "format": "int64"}
        assert put["key"] == {"type": "string", "format": "byte"}


@on_cluster(**kv_setup(voters=1))
async def test_a_record_of_a_newer_version_stops_the_store_alone(cluster: Cluster) -> None:
    async with gateways(cluster) as serving:
        leader = await cluster.wait_for_leader()
        await serving.clients[1].post("/v3/kv/put", {"key": KEY})
        await poison(leader, PREFIX + b"\x91\x63")
        status, answer = await serving.clients[1].post("/v3/kv/put", {"key": KEY})
        assert (status, answer["code"]) == (503, 14)
        assert "command 99" in answer["message"]
        assert await get(serving, 1, serializable=True)
        await leader.resign()
        await cluster.wait_for_leader()
        await Upkeep(serving.services[1], 0).run()
        assert await leader.append([Advance(1)]), "the node goes on"


@on_cluster(**kv_setup(observers=1))
async def test_probes_tell_what_a_node_can_do(cluster: Cluster) -> None:
    async with gateways(cluster) as serving:
        leader = await cluster.wait_for_leader()

        async def get(node_id: int, path: str, query: str = "") -> tuple[int, str]:
            status, content = await serving.clients[node_id].raw(path, b"", method="GET", query=query)
            return status, content.decode()

        voter = cluster.others(leader)[0].key.id
        observer = max(cluster.nodes)
        read, linearizable = "[+]serializable_read ok\n", "[+]linearizable_read ok\n"
        assert await get(voter, "/livez") == await get(voter, "/readyz") == (200, "ok\n")
        assert await get(voter, "/livez", "verbose") == (200, f"{read}ok\n")
        everything = f"[+]data_corruption ok\n{read}{linearizable}[+]non_learner ok\nok\n"
        assert await get(voter, "/readyz", "verbose") == (200, everything)
        others = f"[+]data_corruption ok\n{read}{linearizable}"
        assert await get(observer, "/readyz") == (503, f"{others}[-]non_learner failed: not supported for learner\n\n")
        assert await get(observer, "/readyz", "exclude=non_learner") == (200, "ok\n")
        cluster.partition([voter], [node_id for node_id in cluster.nodes if node_id != voter])
        await trio.sleep(30)
        status, content = await get(voter, "/readyz")
        assert (status, "[-]linearizable_read failed: etcdserver: " in content) == (503, True)
        assert await get(voter, "/livez") == await get(voter, "/readyz/serializable_read") == (200, "ok\n")
        assert (await get(voter, "/health"))[0] == 503
        assert await get(voter, "/health", "serializable=true") == (200, '{"health":"true","reason":""}')
        status, metrics = await get(voter, "/metrics")
        assert (status, "kafka_server_raftmetrics_high_watermark" in metrics) == (200, True)


@on_cluster(**kv_setup(voters=1))
async def test_what_is_not_served_is_refused_as_by_etcd(cluster: Cluster) -> None:
    async with gateways(cluster) as serving:

        async def refused(method: str, path: str) -> tuple[int, object]:
            status, content = await serving.clients[1].raw(path, b"{}", method=method)
            return status, json.loads(content)["code"] if content.startswith(b"{") else content.decode()

        for method in ("GET", "PUT", "DELETE", "OPTIONS"):
            for path in ("/v3/kv/put", "/v3beta/kv/range", "/v3/watch", "/v3/lease/keepalive"):
                assert await refused(method, path) == (501, 12)
        for path in ("/v3/kv/nothing", "/v3/", "/v3/kv/put/"):
            assert await refused("POST", path) == await refused("GET", path) == (404, 5)
        for path in ("/", "/nothing", "/livez/nothing"):
            assert await refused("POST", path) == (404, "404 page not found\n")
        for path in ("/health", "/version", "/livez", "/readyz", "/metrics"):
            assert await refused("POST", path) == (405, "Method Not Allowed\n")
