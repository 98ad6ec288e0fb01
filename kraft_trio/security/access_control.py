"""Decides about each request that reaches a node with an authorizer, by rules that it reads again when they change."""

from __future__ import annotations

from typing import Any, Final

from kraft_trio.config import NodeConfig
from kraft_trio.errors import ProtocolError
from kraft_trio.limits.refusals import Refusals
from kraft_trio.logs import get_logger
from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.security.acl_file import AclFile, read_acls
from kraft_trio.security.api_access import OF_REPLICAS, need_of
from kraft_trio.security.authorization import CLUSTER, AccessRules, Operation, Resource, ResourceType, Verdict
from kraft_trio.security.denials import ERRORS, denial
from kraft_trio.security.file_identity import file_identity
from kraft_trio.security.voter_bindings import Claim, false_claim, may_speak
from kraft_trio.security.watched_files import WatchedFiles
from kraft_trio.wire.codec import RequestHeader

log = get_logger(__name__)

_KEY: Final = "kraft.acl.file"
_LONGEST_SHOWN: Final = 256


class AccessControl:
    """The authorizer of one node."""

    def __init__(self, config: NodeConfig, forwarder_client_id: str, refusals: Refusals) -> None:
        """`forwarder_client_id` marks a request that a node passes on.  Raises ConfigError if there is a bad rule."""
        self._config = config
        self._forwarder_client_id = forwarder_client_id
        self._refusals = refusals
        self._topic = Resource(ResourceType.topic, config.topic_name)
        peers = config.tls_of(config.controller_listener_name)
        has_sasl = config.sasl_of(config.controller_listener_name) is not None
        self._principal_rules = () if peers is None or has_sasl else peers.principal_mapping_rules
        """Those by which a peer's certificate names its principal; none if something else names it."""
        self._rules, self._bindings = AccessRules(), AclFile().bindings
        self.files = WatchedFiles(
            lambda: file_identity(config.acl_file),
            self._take,
            taken=lambda: log.info("access rules reloaded", rules=len(self._rules.rules), voters=len(self._bindings)),
            refused=lambda reason: log.warning("changed access rules not used", reason=reason),
        )

    def refusal(
        self, header: RequestHeader, listener_name: str, request: Any, principal: str, host: str
    ) -> tuple[Any] | None:
        """The response to a request that is not allowed, None for no response; or None if it is allowed."""
        need = need_of(request, is_at_controller=listener_name in self._config.controller_listener_names)
        if need is None:
            return None
        if header.client_id == self._forwarder_client_id:
            need = OF_REPLICAS  # The node that passes it on has asked whether its client may send it.
        resource = self._topic if need.type is ResourceType.topic else CLUSTER
        verdict = self._judge(principal, host, need.operation, resource)
        if verdict.is_allowed:
            claim = false_claim(principal, request, self._bindings)
            if claim is None:
                return None
            verdict = Verdict(False, f"it may not speak for {claim}")
        self._refusals.denied_requests += 1
        log.warning(
            "request denied",
            principal=principal[:_LONGEST_SHOWN],
            peer=host,
            api=header.api.name,
            operation=str(need.operation),
            resource=f"{resource.type}:{resource.name}",
            reason=verdict.reason[:_LONGEST_SHOWN],
        )
        reason = f"{principal[:_LONGEST_SHOWN]} may not {need.operation} the {resource.type.lower()}"
        return (denial(header.api, request, ERRORS[resource.type], reason),)

    def is_replica(self, principal: str, host: str) -> bool:
        """Whether the principal may send what only replicas send."""
        return self._judge(principal, host, OF_REPLICAS.operation, CLUSTER).is_allowed

    def refusal_of_server(self, certificate: bytes | None, voter: ReplicaKey) -> str | None:
        """Why the node with this certificate must not answer as that voter, or None if it may."""
        if certificate is None or not self._principal_rules or not self._bindings:
            return None
        from kraft_trio.security.principal import principal_of  # imports cryptography

        try:
            principal = principal_of(certificate, self._principal_rules)
        except ProtocolError as error:
            return str(error)
        claim = Claim(voter.id, voter.directory_id)
        return None if may_speak(principal, claim, self._bindings) else f"{principal} may not speak for {claim}"

    def _judge(self, principal: str, host: str, operation: Operation, resource: Resource) -> Verdict:
        verdict = self._rules.judge(principal, host, operation, resource)
        if operation is Operation.idempotent_write and not verdict.is_allowed:
            # KIP-679: whoever may write to a topic may do so with a producer id.
            return self._rules.judge_any(principal, host, Operation.write, ResourceType.topic)
        return verdict

    def _take(self) -> None:
        path = self._config.acl_file
        file = read_acls(_KEY, path) if path else AclFile()
        self._bindings = file.bindings
        self._rules = AccessRules(
            frozenset(self._config.super_users), file.rules, self._config.allows_everyone_without_acl
        )
