"""The numbers by which etcd's clients know the cluster and its members: 64 bits, derived from our ids."""

from __future__ import annotations

import hashlib


def cluster_number(cluster_id: str) -> int:
    return _number(cluster_id)


def member_number(cluster_id: str, node_id: int) -> int:
    return _number(f"{cluster_id}/{node_id}")


def _number(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") or 1
