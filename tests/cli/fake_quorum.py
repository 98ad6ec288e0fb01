"""A quorum that answers the admin client without a network, for the command lines that change it."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from quorums import leading, quorum, up

from kraft_trio.client.admin import AdminClient, VoterChangeError
from kraft_trio.client.quorum_description import (
    FeatureLevels,
    FeatureMetadata,
    NoLeader,
    QuorumDescription,
    ReplicaState,
)
from kraft_trio.protocol.types import Endpoint, ReplicaKey, VersionRange
from kraft_trio.wire.error_codes import ErrorCode


@attrs.define
class FakeQuorum:
    """What the admin client says and does; `asked` are the changes that came."""

    description: QuorumDescription | NoLeader = attrs.field(factory=lambda: quorum(leading(), up(2), up(3)))
    asked: list[tuple[Any, ...]] = attrs.field(factory=list)
    errors: list[Exception] = attrs.field(factory=list)
    """What the next changes end with."""
    becomes: list[QuorumDescription] = attrs.field(factory=list)
    """The descriptions after a reassignment is asked for; the last one stays."""
    later: list[QuorumDescription | NoLeader] = attrs.field(factory=list)
    """The descriptions after the first one; the last one stays."""
    reassigns: bool = True
    """Whether the leader reassigns voters, unlike Kafka's controllers."""
    finalized: int = 0
    bootstrap: list[tuple[Endpoint, ...]] = attrs.field(factory=list)

    def change(self, *what: Any, voters: tuple[ReplicaState, ...] | None = None) -> None:
        self.asked.append(what)
        if self.errors:
            raise self.errors.pop(0)
        if voters is not None:
            assert isinstance(self.description, QuorumDescription)
            self.description = attrs.evolve(self.description, voters=voters)


def faked(monkeypatch: pytest.MonkeyPatch) -> FakeQuorum:
    """One that every admin client asks from now on, until the test is over."""
    fake = FakeQuorum()

    async def describe(self: AdminClient, timeout_ms: int = 5000) -> QuorumDescription | NoLeader:
        fake.bootstrap.append(self._finder.bootstrap)
        if fake.later and len(fake.bootstrap) > 1:
            fake.description = fake.later.pop(0)
        if fake.becomes and fake.asked:
            fake.description = fake.becomes.pop(0)
        return fake.description

    async def add(self: AdminClient, voter: ReplicaKey, endpoints: Any, **options: Any) -> None:
        assert isinstance(fake.description, QuorumDescription)
        fake.change(
            "add", voter, endpoints, options, voters=(*fake.description.voters, attrs.evolve(up(voter.id), key=voter))
        )

    async def remove(self: AdminClient, voter: ReplicaKey, **options: Any) -> None:
        assert isinstance(fake.description, QuorumDescription)
        left = tuple(state for state in fake.description.voters if state.key != voter)
        fake.change("remove", voter, options, voters=left)

    async def reassign(self: AdminClient, target: Any, **options: Any) -> None:
        if not fake.reassigns:
            raise VoterChangeError("reassign", ErrorCode.unknown_topic_or_partition, None)
        fake.change("reassign", target, options)

    async def transfer(self: AdminClient, to: int, **options: Any) -> QuorumDescription:
        fake.change("transfer", to, options)
        assert isinstance(fake.description, QuorumDescription)
        return attrs.evolve(fake.description, leader_id=to, leader_epoch=fake.description.leader_epoch + 1)

    async def describe_features(self: AdminClient, timeout_ms: int = 5000) -> FeatureMetadata:
        return FeatureMetadata((FeatureLevels("kraft.version", VersionRange(0, 1), fake.finalized),), 5)

    async def update(self: AdminClient, levels: Any, **options: Any) -> None:
        fake.change("features", dict(levels), options)

    async def unregister(self: AdminClient, controller_id: int, **options: Any) -> None:
        fake.change("unregister", controller_id, options)

    for name, function in (
        ("unregister_controller", unregister),
        ("describe_metadata_quorum", describe),
        ("add_metadata_voter", add),
        ("remove_metadata_voter", remove),
        ("alter_partition_reassignments", reassign),
        ("transfer_leadership", transfer),
        ("describe_features", describe_features),
        ("update_features", update),
    ):
        monkeypatch.setattr(AdminClient, name, function)
    return fake
