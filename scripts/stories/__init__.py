"""User stories, those of KIP-853 among them, told with real processes; `scripts/story` runs them."""

STORIES = (
    "one-voter",
    "three-voters",
    "add",
    "remove",
    "auto-join",
    "disk-failure",
    "node-failure",
    "listener-upgrade",
    "version-upgrade",
    "restore",
)
"""A module each, `-` written as `_`: its docstring says what happens, its `tell` makes it happen."""
