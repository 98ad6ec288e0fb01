"""A listener with both: TLS comes first, and a certificate does not replace the password."""

from __future__ import annotations

from pathlib import Path

from kraft_trio.client.admin import AdminClient
from kraft_trio.client.quorum_description import NoLeader, QuorumDescription
from kraft_trio.config.jaas import PLAIN_MODULE
from kraft_trio.security.client_network import client_network
from tests.security.test_mutual_tls import bootstrap, configs, nodes_of
from tests.support.certificates import tls_keys, write_client_file

JAAS = f'{PLAIN_MODULE} required username="node" password="s3cret"'


async def test_a_tool_needs_certificate_and_password(tmp_path: Path) -> None:
    keys = {
        "listener.security.protocol.map": "CONTROLLER:SASL_SSL",
        "controller.quorum.election.timeout.ms": "500",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "sasl.jaas.config": f'{JAAS} user_node="s3cret";',
    }
    made = configs(tmp_path, range(1, 3), keys)
    login = {"sasl.mechanism": "PLAIN", "sasl.jaas.config": f"{JAAS};"}
    tls = tls_keys(tmp_path, "operator")

    def admin(protocol: str, keys: dict[str, str]) -> AdminClient:
        path = write_client_file(tmp_path / f"{protocol}.properties", {"security.protocol": protocol, **keys})
        return AdminClient(bootstrap(made[0]), network=client_network(path))

    async with nodes_of(made) as nodes:
        assert await nodes[0].append([b"x"])
        assert isinstance(await admin("SASL_SSL", {**tls, **login}).describe_metadata_quorum(), QuorumDescription)
        for client in (admin("SSL", tls), admin("SASL_PLAINTEXT", login)):
            refused = await client.describe_metadata_quorum(1)
            assert isinstance(refused, NoLeader)
            assert refused.reachable == 0
