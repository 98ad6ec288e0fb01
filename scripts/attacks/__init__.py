"""Attacks on a quorum of real processes, played by a client that is hostile; `scripts/attack` runs and judges them."""

ATTACKS = (
    "epochs",
    "bombs",
    "applied-bombs",
    "trim",
    "arrays",
    "unread",
    "unfinished",
    "reconnects",
    "pipelining",
    "load",
    "places",
    "stderr",
    "power-cut",
    "mutations",
    "frames",
    "forged",
    "strange-leader",
    "producer-ids",
    "many-producers",
    "changes",
    "snapshots",
    "unreadable",
    "slow-loris",
    "handshakes",
    "watches",
    "kv-commands",
    "kv-maintenance",
    "kv-reads",
    "kv-watches",
)
"""A module each, `-` written as `_`: its docstring says what it sends, its `play` sends it.

Those with the same SETTINGS, configuration keys, share a quorum; a module with `start` starts the nodes itself.
"""
