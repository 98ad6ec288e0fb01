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
    """Everything a node is told at its start.

    Raises ConfigError if a value cannot be used, alone or together with another one.
    """

    def __attrs_post_init__(self) -> None:
        check(self)

    @property
    def controller_listener_name(self) -> str:
        """The listener name by which this node looks up its peers' endpoints."""
        return self.controller_listener_names[0]

    def advertised_endpoints(self) -> Endpoints:
        """What this node tells the quorum about itself: its controller listeners, the default one first, then
        the others.  Those are for clients: each node can name the addresses of the whole quorum to them.
        """
        advertised = {listener.name: listener.endpoint for listener in self.advertised_listeners}
        for listener in self.listeners:
            advertised.setdefault(listener.name, listener.endpoint)
        names = dict.fromkeys((*self.controller_listener_names, *(listener.name for listener in self.listeners)))
        return Endpoints([(name, advertised[name]) for name in names if name in advertised])

    def as_voter(self, directory_id: UUID) -> Voter:
        """This node as a VotersRecord should name it."""
        return Voter(ReplicaKey(self.node_id, directory_id), self.advertised_endpoints(), SUPPORTED_KRAFT_VERSIONS)

    def advertised_endpoint(self, listener_name: str) -> Endpoint | None:
        """Where clients that came in through this listener are told to connect; None for a name that we do not have."""
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
