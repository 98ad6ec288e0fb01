"""A second node joins a quorum of one and leaves it again: python -m examples.membership"""

import logging
import socket
import tempfile

import structlog
import trio

from kraft_trio import (
    AdminClient,
    NodeConfig,
    NoLeader,
    QuorumDescription,
    VoterChangeError,
    VoterSet,
    first_voter,
    format_node,
    open_node,
    parse_config,
    random_uuid,
)


def make_configs(directory: str) -> list[NodeConfig]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return [
        parse_config(
            {
                "node.id": str(node_id),
                "listeners": f"CONTROLLER://127.0.0.1:{port}",
                "controller.quorum.bootstrap.servers": f"127.0.0.1:{ports[0]}",
                "metadata.log.dir": f"{directory}/node-{node_id}",
            }
        ).config
        for node_id, port in enumerate(ports, start=1)
    ]


async def described(admin: AdminClient) -> QuorumDescription:
    quorum = await admin.describe_metadata_quorum()
    if isinstance(quorum, NoLeader):
        raise SystemExit("no leader: " + "; ".join(map(str, quorum.views)))
    return quorum


async def main(directory: str) -> None:
    first, second = make_configs(directory)
    cluster_id = random_uuid()
    format_node(first, cluster_id, VoterSet([first_voter(first)]))
    format_node(second, cluster_id)  # it joins: the voters are in the quorum's log

    async with open_node(first), open_node(second) as joining:
        admin = AdminClient([first.quorum_bootstrap_servers[0]], request_timeout_ms=30_000)
        print("voters:", [voter.key.id for voter in (await described(admin)).voters])

        await admin.add_metadata_voter(joining.key, second.advertised_endpoints(), cluster_id=cluster_id)
        quorum = await described(admin)
        print("voters:", [(voter.key.id, quorum.lag(voter)) for voter in quorum.voters])

        try:
            await admin.add_metadata_voter(joining.key, second.advertised_endpoints())
        except VoterChangeError as error:
            print("refused:", error.error.name)

        await admin.remove_metadata_voter(joining.key)
        print("voters:", [voter.key.id for voter in (await described(admin)).voters])


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    with tempfile.TemporaryDirectory() as temporary:
        trio.run(main, temporary)
