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

STORIES_WITH_OTHERS = ("patroni",)
"""Stories that need programs of others, and whose quorum holds what those programs write."""

ALL_STORIES = (*STORIES, *STORIES_WITH_OTHERS)
