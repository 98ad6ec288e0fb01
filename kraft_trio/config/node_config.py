"""The configuration of one node, as its actors see it."""

from __future__ import annotations

from uuid import UUID

import attrs

from kraft_trio.config.checks import check
from kraft_trio.config.fields import ConfigFields
from kraft_trio.protocol.types import Endpoint, Endpoints, ReplicaKey
from kraft_trio.protocol.voter_set import SUPPORTED_KRAFT_VERSIONS, Voter, VoterSet


@attrs.frozen(kw_only=True)
class NodeConfig(ConfigFields):
    """The complete configuration of a node.

    Raises ConfigError if a value cannot be used, alone or together with another one.
    """

    def __attrs_post_init__(self) -> None:
        check(self)

    @property
    def controller_listener_name(self) -> str:
        """The listener name by which this node looks up its peers' endpoints."""
        return self.controller_listener_names[0]

    def advertised_endpoints(self) -> Endpoints:
        """The addresses that this node announces to the quorum: its controller listeners, the default one first, then
        the client listeners.  With these, any node can give clients the addresses of the whole quorum.
        """
        advertised = {listener.name: listener.endpoint for listener in self.advertised_listeners}
        for listener in self.listeners:
            advertised.setdefault(listener.name, listener.endpoint)
        names = dict.fromkeys((*self.controller_listener_names, *(listener.name for listener in self.listeners)))
        return Endpoints([(name, advertised[name]) for name in names if name in advertised])

    def as_voter(self, directory_id: UUID) -> Voter:
        """This node's entry in a VotersRecord."""
        return Voter(ReplicaKey(self.node_id, directory_id), self.advertised_endpoints(), SUPPORTED_KRAFT_VERSIONS)

    def advertised_endpoint(self, listener_name: str) -> Endpoint | None:
        """The address that clients of this listener should connect to; None for an unknown listener."""
        for listener in (*self.advertised_listeners, *self.listeners):
            if listener.name == listener_name:
                return listener.endpoint
        return None

    def static_voter_set(self) -> VoterSet:
        """`controller.quorum.voters` as a voter set: unknown directory ids, kraft.version range 0..0."""
        name = self.controller_listener_name
        return VoterSet(
            [Voter(ReplicaKey(voter.id), Endpoints({name: voter.endpoint})) for voter in self.quorum_voters]
        )
