"""The schemas of Apache Kafka's metadata records (KIP-631), as `kraft_trio.wire.schema` writes them.

A line without indentation begins a record, with its API key, its name and its versions.  Its fields follow.  All of
Kafka 4.4's records are here.  Newer versions of a record only add fields, so older releases have the same ones.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Final

import attrs

from kraft_trio.wire.schema import EntityShape, structure_shape

_SCHEMAS: Final = """\
0 RegisterBrokerRecord 0-4
    brokerId: int32
    isMigratingZkBroker: bool 2+
    incarnationId: uuid
    brokerEpoch: int64
    endPoints: [BrokerEndpoint]
        name: string
        host: string
        port: uint16
        securityProtocol: int16
    features: [BrokerFeature]
        name: string
        minSupportedVersion: int16
        maxSupportedVersion: int16
    rack: string?
    fenced: bool
    inControlledShutdown: bool 1+
    logDirs: [uuid] 3+ tag 0
    cordonedLogDirs: [uuid]? 4+ tag 1 = null
1 UnregisterBrokerRecord 0
    brokerId: int32
    brokerEpoch: int64
2 TopicRecord 0
    name: string
    topicId: uuid
3 PartitionRecord 0-2
    partitionId: int32
    topicId: uuid
    replicas: [int32]
    isr: [int32]
    removingReplicas: [int32]
    addingReplicas: [int32]
    leader: int32
    leaderRecoveryState: int8 tag 0
    leaderEpoch: int32
    partitionEpoch: int32
    directories: [uuid] 1+
    eligibleLeaderReplicas: [int32]? 2+ tag 1 = null
    lastKnownElr: [int32]? 2+ tag 2 = null
4 ConfigRecord 0
    resourceType: int8
    resourceName: string
    name: string
    value: string?
5 PartitionChangeRecord 0-2
    partitionId: int32
    topicId: uuid
    isr: [int32]? tag 0 = null
    leader: int32 tag 1 = -2
    replicas: [int32]? tag 2 = null
    removingReplicas: [int32]? tag 3 = null
    addingReplicas: [int32]? tag 4 = null
    leaderRecoveryState: int8 tag 5 = -1
    directories: [uuid]? 1+ tag 8 = null
    eligibleLeaderReplicas: [int32]? 2+ tag 6 = null
    lastKnownElr: [int32]? 2+ tag 7 = null
7 FenceBrokerRecord 0
    id: int32
    epoch: int64
8 UnfenceBrokerRecord 0
    id: int32
    epoch: int64
9 RemoveTopicRecord 0
    topicId: uuid
10 DelegationTokenRecord 0
    owner: string
    requester: string
    renewers: [string]
    issueTimestamp: int64
    maxTimestamp: int64
    expirationTimestamp: int64
    tokenId: string
11 UserScramCredentialRecord 0
    name: string
    mechanism: int8
    salt: bytes
    storedKey: bytes
    serverKey: bytes
    iterations: int32
12 FeatureLevelRecord 0
    name: string
    featureLevel: int16
14 ClientQuotaRecord 0
    entity: [EntityData]
        entityType: string
        entityName: string?
    key: string
    value: float64
    remove: bool
15 ProducerIdsRecord 0
    brokerId: int32
    brokerEpoch: int64
    nextProducerId: int64
17 BrokerRegistrationChangeRecord 0-3
    brokerId: int32
    brokerEpoch: int64
    fenced: int8 tag 0
    inControlledShutdown: int8 1+ tag 1
    logDirs: [uuid] 2+ tag 2
    cordonedLogDirs: [uuid]? 3+ tag 3 = null
18 AccessControlEntryRecord 0
    id: uuid
    resourceType: int8
    resourceName: string
    patternType: int8
    principal: string
    host: string
    operation: int8
    permissionType: int8
19 RemoveAccessControlEntryRecord 0
    id: uuid
20 NoOpRecord 0
21 ZkMigrationStateRecord 0
    zkMigrationState: int8
22 RemoveUserScramCredentialRecord 0
    name: string
    mechanism: int8
23 BeginTransactionRecord 0
    name: string? tag 0 = null
24 EndTransactionRecord 0
25 AbortTransactionRecord 0
    reason: string? tag 0 = null
26 RemoveDelegationTokenRecord 0
    tokenId: string
27 RegisterControllerRecord 0
    controllerId: int32
    incarnationId: uuid
    zkMigrationReady: bool
    endPoints: [ControllerEndpoint]
        name: string
        host: string
        port: uint16
        securityProtocol: int16
    features: [ControllerFeature]
        name: string
        minSupportedVersion: int16
        maxSupportedVersion: int16
28 ClearElrRecord 0
    topicName: string
29 UnregisterControllerRecord 0
    controllerId: int32
"""


@attrs.frozen
class RecordSchema:
    """A kind of record.  `type_name` is how Kafka's tools print it, as in TOPIC_RECORD."""

    name: str
    max_version: int
    fields: str

    @property
    def type_name(self) -> str:
        return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", self.name).upper()

    def shape(self, version: int) -> EntityShape:
        """Its fields in that version.  Raises ValueError unless 0 <= version <= `max_version`."""
        if not 0 <= version <= self.max_version:
            raise ValueError(f"{self.name}: version {version}, expected 0 to {self.max_version}")
        return _shape(self, version)


@cache
def _shape(schema: RecordSchema, version: int) -> EntityShape:
    return structure_shape(schema.fields, schema.name, version, flexible=True)


def _parsed() -> dict[int, RecordSchema]:
    found = {}
    for part in re.split(r"^(?=\d)", _SCHEMAS, flags=re.MULTILINE)[1:]:
        head, _, fields = part.partition("\n")
        key, name, versions = head.split(" ")
        found[int(key)] = RecordSchema(name, int(versions.rpartition("-")[2]), fields)
    return found


SCHEMAS: Final[Mapping[int, RecordSchema]] = _parsed()
"""By API key."""
