"""User stories, including those of KIP-853, played with real processes by `scripts/story`."""

STORIES = (
    "one-voter",
    "three-voters",
    "add",
    "remove",
    "auto-join",
    "disk-failure",
    "node-failure",
    "reassign",
    "listener-upgrade",
    "moved-quorum",
    "version-upgrade",
    "restore",
)
"""One module per story, with `-` written as `_`.  Its docstring describes the story, and its `tell` plays it."""
