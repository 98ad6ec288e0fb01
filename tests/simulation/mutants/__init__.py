"""Deliberate breaks of real rules: each must be found by an invariant.  A checker that has never fired is none."""

from __future__ import annotations

from . import (
    commits,
    elections,
    following,
    gossip,
    kafka,
    membership,
    reads,
    reassignment,
    requests,
    snapshots,
    storage,
    terms,
    witness,
)
from .mutant import MUTANTS, Found, Mutant, violation_of
from .runs import Run

__all__ = [
    "MUTANTS",
    "Found",
    "Mutant",
    "Run",
    "commits",
    "elections",
    "following",
    "gossip",
    "kafka",
    "membership",
    "reads",
    "reassignment",
    "requests",
    "snapshots",
    "storage",
    "terms",
    "violation_of",
    "witness",
]
