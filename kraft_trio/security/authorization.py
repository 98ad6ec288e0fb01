"""Whether a principal may do something: the rules of Kafka's StandardAuthorizer, as pure functions."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

import attrs

ANYONE: Final = "User:*"
ANONYMOUS: Final = "User:ANONYMOUS"
"""The principal of a connection without authentication, as Kafka calls it."""
ANY_HOST: Final = "*"
ANY_NAME: Final = "*"
_UNNAMED: Final = "\0"
"""Stands for the resources that no literal rule names."""


class Operation(StrEnum):
    """What a request does to a resource, with Kafka's names."""

    all = "ALL"
    read = "READ"
    write = "WRITE"
    create = "CREATE"
    alter = "ALTER"
    describe = "DESCRIBE"
    cluster_action = "CLUSTER_ACTION"
    describe_configs = "DESCRIBE_CONFIGS"
    alter_configs = "ALTER_CONFIGS"
    idempotent_write = "IDEMPOTENT_WRITE"


class Permission(StrEnum):
    allow = "ALLOW"
    deny = "DENY"


class Pattern(StrEnum):
    """How a rule names its resource."""

    literal = "LITERAL"
    prefixed = "PREFIXED"


class ResourceType(StrEnum):
    cluster = "CLUSTER"
    topic = "TOPIC"


@attrs.frozen
class Resource:
    """A thing that a request concerns."""

    type: ResourceType
    name: str


CLUSTER: Final = Resource(ResourceType.cluster, "kafka-cluster")
"""The cluster itself, under Kafka's name for it."""


@attrs.frozen
class AclRule:
    """One rule.  `User:*` is any principal, and host and name may be `*`."""

    permission: Permission
    principal: str
    operation: Operation
    resource: Resource
    host: str = ANY_HOST
    pattern: Pattern = Pattern.literal

    def __str__(self) -> str:
        more = "*" if self.pattern is Pattern.prefixed else ""
        about = f"{self.resource.type}:{self.resource.name}{more}"
        return f"{self.permission} {self.principal} {self.operation} on {about} from {self.host}"

    def is_about(self, resource: Resource) -> bool:
        """Whether the rule concerns that resource."""
        if self.resource.type != resource.type:
            return False
        if self.pattern is Pattern.prefixed:
            return resource.name.startswith(self.resource.name)
        return self.resource.name in (ANY_NAME, resource.name)

    def matches(self, principal: str, host: str, operation: Operation) -> bool:
        """Whether the rule speaks of that operation by that principal from that host."""
        if self.principal not in (ANYONE, principal) or self.host not in (ANY_HOST, host):
            return False
        if self.operation in (Operation.all, operation):
            return True
        return self.permission is Permission.allow and operation in _IMPLIED.get(self.operation, ())


_IMPLIED: Final = {
    Operation.read: (Operation.describe,),
    Operation.write: (Operation.describe,),
    Operation.alter: (Operation.describe,),
    Operation.alter_configs: (Operation.describe_configs,),
}
"""An operation that is allowed implies these."""


@attrs.frozen
class Verdict:
    """`reason` says what decided, for the audit line."""

    is_allowed: bool
    reason: str


@attrs.frozen
class AccessRules:
    """All rules of a node."""

    super_users: frozenset[str] = frozenset()
    rules: tuple[AclRule, ...] = ()
    allows_if_no_rule: bool = False
    """`allow.everyone.if.no.acl.found`: whether everybody may do everything to a resource that no rule is about."""

    def judge(self, principal: str, host: str, operation: Operation, resource: Resource) -> Verdict:
        """Decide: a super user may do all, then a rule that denies wins, then one that allows."""
        if principal in self.super_users:
            return Verdict(True, "super.users")
        about = [rule for rule in self.rules if rule.is_about(resource)]
        if not about:
            return Verdict(self.allows_if_no_rule, "no rule is about it")
        return _first(about, Permission.deny, principal, host, operation) or (
            _first(about, Permission.allow, principal, host, operation) or Verdict(False, "no rule allows it")
        )

    def judge_any(self, principal: str, host: str, operation: Operation, type_: ResourceType) -> Verdict:
        """Whether the operation is allowed on any resource of that type, as InitProducerId asks it."""
        if principal in self.super_users:
            return Verdict(True, "super.users")
        named = [rule for rule in self.rules if rule.resource.type == type_]
        names = {rule.resource.name + (_UNNAMED if rule.pattern is Pattern.prefixed else "") for rule in named}
        for name in [_UNNAMED, *sorted(names - {ANY_NAME})]:
            verdict = self.judge(principal, host, operation, Resource(type_, name))
            if verdict.is_allowed:
                return verdict
        return Verdict(False, "no rule allows it on any")


def _first(
    rules: Iterable[AclRule], permission: Permission, principal: str, host: str, operation: Operation
) -> Verdict | None:
    for rule in rules:
        if rule.permission is permission and rule.matches(principal, host, operation):
            return Verdict(permission is Permission.allow, str(rule))
    return None
