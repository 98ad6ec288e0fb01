"""The names that Kafka's tools give to numbers in metadata records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

CONFIG_RESOURCES: Final = {2: "TOPIC", 4: "BROKER", 8: "BROKER_LOGGER", 16: "CLIENT_METRICS", 32: "GROUP"}
ACL_RESOURCES: Final = {
    2: "TOPIC",
    3: "GROUP",
    4: "CLUSTER",
    5: "TRANSACTIONAL_ID",
    6: "DELEGATION_TOKEN",
    7: "USER",
}
PATTERNS: Final = {3: "LITERAL", 4: "PREFIXED"}
OPERATIONS: Final = {
    2: "ALL",
    3: "READ",
    4: "WRITE",
    5: "CREATE",
    6: "DELETE",
    7: "ALTER",
    8: "DESCRIBE",
    9: "CLUSTER_ACTION",
    10: "DESCRIBE_CONFIGS",
    11: "ALTER_CONFIGS",
    12: "IDEMPOTENT_WRITE",
    13: "CREATE_TOKENS",
    14: "DESCRIBE_TOKENS",
    15: "TWO_PHASE_COMMIT",
}
PERMISSIONS: Final = {2: "DENY", 3: "ALLOW"}
SCRAM_MECHANISMS: Final = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
SECURITY_PROTOCOLS: Final = {0: "PLAINTEXT", 1: "SSL", 2: "SASL_PLAINTEXT", 3: "SASL_SSL"}
RECOVERY_STATES: Final = {0: "RECOVERED", 1: "RECOVERING"}


def name_of(names: Mapping[int, str], number: int) -> str:
    """The name, or the number as text if it has none."""
    return names.get(number, str(number))
