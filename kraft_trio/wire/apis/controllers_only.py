"""What Apache Kafka's controllers serve to brokers and tools, and no node does: a witness answers NOT_CONTROLLER.

A broker takes the leader of the quorum for the active controller.  It looks for another one after NOT_CONTROLLER or a
lost connection, but stays with a leader that does not advertise an API.  It also offers to its clients only what that
leader advertises.  So a witness advertises all of this, as of Kafka 4.4, and reads no such request.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from kraft_trio.wire.apis.controller_registration import CONTROLLER_REGISTRATION
from kraft_trio.wire.apis.unregister_controller import UNREGISTER_CONTROLLER
from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.schema import EntityShape, Fields, message_shape

RefusedApi: TypeAlias = Api[None, ErrorCode]

_TOKEN_EXPIRY: Final = """\
    error_code: error_code
    expiry_timestamp: int64
    throttle_time: int32
"""
_WITH_MESSAGE: Final = """\
    throttle_time: int32
    error_code: error_code
    error_message: string?
"""


def _refusal(shape: EntityShape, error: ErrorCode) -> Fields:
    """The fields of a response that has the error where clients look for it.

    That is in the structure itself, or else in one element of each of its arrays.
    """
    has_error = any(field.kind == "error_code" for field in shape.fields)
    fields: Fields = {}
    for field in shape.fields:
        if field.kind == "error_code":
            fields[field.name] = error
        elif field.is_array and field.entity is not None and not has_error:
            fields[field.name] = [_refusal(field.entity, error)]
        else:
            fields[field.name] = None if field.nullable else field.default
    return fields


def _api(key: int, name: str, versions: tuple[int, int], flexible_version: int, response: str) -> RefusedApi:
    schema = f"request\nresponse\n{response}"

    def fields_of_response(error: ErrorCode, version: int) -> Fields:
        shape = message_shape(schema, name, "response", version, flexible=version >= flexible_version)
        return _refusal(shape, error)

    return Api(
        key=key,
        name=name,
        schema=schema,
        min_version=versions[0],
        max_version=versions[1],
        flexible_version=flexible_version,
        fields_of_request=lambda _request, _version: {},
        request_of_fields=lambda _fields, _version: None,
        fields_of_response=fields_of_response,
        response_of_fields=lambda _fields, _version: ErrorCode.not_controller,
        error_response=lambda error, _message: error,
    )


_ALL: Final = (
    _api(
        20,
        "DeleteTopics",
        (1, 6),
        4,
        """\
    throttle_time: int32
    responses: [DeletableTopicResult]
        name: string?6+
        topic_id: uuid 6+
        error_code: error_code
        error_message: string? 5+
""",
    ),
    _api(
        29,
        "DescribeAcls",
        (1, 3),
        2,
        """\
    throttle_time: int32
    error_code: error_code
    error_message: string?
    resources: [DescribeAclsResource]
        resource_type: int8
        resource_name: string
        pattern_type: int8
        acls: [AclDescription]
            principal: string
            host: string
            operation: int8
            permission_type: int8
""",
    ),
    _api(
        30,
        "CreateAcls",
        (1, 3),
        2,
        """\
    throttle_time: int32
    results: [AclCreationResult]
        error_code: error_code
        error_message: string?
""",
    ),
    _api(
        31,
        "DeleteAcls",
        (1, 3),
        2,
        """\
    throttle_time: int32
    filter_results: [DeleteAclsFilterResult]
        error_code: error_code
        error_message: string?
        matching_acls: [DeleteAclsMatchingAcl]
            error_code: error_code
            error_message: string?
            resource_type: int8
            resource_name: string
            pattern_type: int8
            principal: string
            host: string
            operation: int8
            permission_type: int8
""",
    ),
    _api(
        32,
        "DescribeConfigs",
        (1, 4),
        4,
        """\
    throttle_time: int32
    results: [DescribeConfigsResult]
        error_code: error_code
        error_message: string?
        resource_type: int8
        resource_name: string
        configs: [DescribeConfigsResourceResult]
            name: string
            value: string?
            read_only: bool
            config_source: int8
            is_sensitive: bool
            synonyms: [DescribeConfigsSynonym]
                name: string
                value: string?
                source: int8
            config_type: int8 3+
            documentation: string? 3+
""",
    ),
    _api(
        33,
        "AlterConfigs",
        (0, 2),
        2,
        """\
    throttle_time: int32
    responses: [AlterConfigsResourceResponse]
        error_code: error_code
        error_message: string?
        resource_type: int8
        resource_name: string
""",
    ),
    _api(
        37,
        "CreatePartitions",
        (0, 3),
        2,
        """\
    throttle_time: int32
    results: [CreatePartitionsTopicResult]
        name: string
        error_code: error_code
        error_message: string?
""",
    ),
    _api(
        38,
        "CreateDelegationToken",
        (1, 3),
        2,
        """\
    error_code: error_code
    principal_type: string
    principal_name: string
    token_requester_principal_type: string 3+
    token_requester_principal_name: string 3+
    issue_timestamp: int64
    expiry_timestamp: int64
    max_timestamp: int64
    token_id: string
    hmac: bytes
    throttle_time: int32
""",
    ),
    _api(39, "RenewDelegationToken", (1, 2), 2, _TOKEN_EXPIRY),
    _api(40, "ExpireDelegationToken", (1, 2), 2, _TOKEN_EXPIRY),
    _api(
        41,
        "DescribeDelegationToken",
        (1, 3),
        2,
        """\
    error_code: error_code
    tokens: [DescribedDelegationToken]
        principal_type: string
        principal_name: string
        token_requester_principal_type: string 3+
        token_requester_principal_name: string 3+
        issue_timestamp: int64
        expiry_timestamp: int64
        max_timestamp: int64
        token_id: string
        hmac: bytes
        renewers: [DescribedDelegationTokenRenewer]
            principal_type: string
            principal_name: string
    throttle_time: int32
""",
    ),
    _api(
        43,
        "ElectLeaders",
        (0, 2),
        2,
        """\
    throttle_time: int32
    error_code: error_code 1+
    replica_election_results: [ReplicaElectionResult]
        topic: string
        partition_result: [PartitionResult]
            partition_id: int32
            error_code: error_code
            error_message: string?
""",
    ),
    _api(
        49,
        "AlterClientQuotas",
        (0, 1),
        1,
        """\
    throttle_time: int32
    entries: [EntryData]
        error_code: error_code
        error_message: string?
        entity: [EntityData]
            entity_type: string
            entity_name: string?
""",
    ),
    _api(
        50,
        "DescribeUserScramCredentials",
        (0, 0),
        0,
        """\
    throttle_time: int32
    error_code: error_code
    error_message: string?
    results: [DescribeUserScramCredentialsResult]
        user: string
        error_code: error_code
        error_message: string?
        credential_infos: [CredentialInfo]
            mechanism: int8
            iterations: int32
""",
    ),
    _api(
        51,
        "AlterUserScramCredentials",
        (0, 0),
        0,
        """\
    throttle_time: int32
    results: [AlterUserScramCredentialsResult]
        user: string
        error_code: error_code
        error_message: string?
""",
    ),
    _api(
        56,
        "AlterPartition",
        (2, 3),
        0,
        """\
    throttle_time: int32
    error_code: error_code
    topics: [TopicData]
        topic_id: uuid
        partitions: [PartitionData]
            partition_index: int32
            error_code: error_code
            leader_id: int32
            leader_epoch: int32
            isr: [int32]
            leader_recovery_state: int8
            partition_epoch: int32
""",
    ),
    _api(
        58,
        "Envelope",
        (0, 0),
        0,
        """\
    response_data: bytes?
    error_code: error_code
""",
    ),
    _api(
        62,
        "BrokerRegistration",
        (0, 4),
        0,
        """\
    throttle_time: int32
    error_code: error_code
    broker_epoch: int64
""",
    ),
    _api(
        63,
        "BrokerHeartbeat",
        (0, 2),
        0,
        """\
    throttle_time: int32
    error_code: error_code
    is_caught_up: bool
    is_fenced: bool
    should_shut_down: bool
""",
    ),
    _api(64, "UnregisterBroker", (0, 0), 0, _WITH_MESSAGE),
    _api(
        67,
        "AllocateProducerIds",
        (0, 0),
        0,
        """\
    throttle_time: int32
    error_code: error_code
    producer_id_start: int64
    producer_id_len: int32
""",
    ),
    _api(CONTROLLER_REGISTRATION.key, CONTROLLER_REGISTRATION.name, (0, 0), 0, _WITH_MESSAGE),
    _api(
        73,
        "AssignReplicasToDirs",
        (0, 0),
        0,
        """\
    throttle_time: int32
    error_code: error_code
    directories: [DirectoryData]
        id: uuid
        topics: [TopicData]
            topic_id: uuid
            partitions: [PartitionData]
                partition_index: int32
                error_code: error_code
""",
    ),
    _api(UNREGISTER_CONTROLLER.key, UNREGISTER_CONTROLLER.name, (0, 0), 0, _WITH_MESSAGE),
)

CONTROLLERS_ONLY: Final[Mapping[int, Api[Any, Any]]] = MappingProxyType({api.key: api for api in _ALL})
"""By key.  Their requests are not read; the value of a response is the error."""
