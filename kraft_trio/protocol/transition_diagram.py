"""The transition table as a picture, so that the documentation cannot say anything else than the code does."""

from __future__ import annotations

from kraft_trio.protocol.roles import TRANSITIONS, EpochChange

_EPOCHS = {
    EpochChange.SAME: "",
    EpochChange.NEXT: ", epoch + 1",
    EpochChange.HIGHER: ", higher epoch",
    EpochChange.SAME_OR_HIGHER: ", same or higher epoch",
}


def transition_diagram() -> str:
    """A Mermaid state diagram, one line for each row of the table; durable transitions are marked with a star."""
    lines = ["stateDiagram-v2"]
    for (origin, event), transition in TRANSITIONS.items():
        label = event.name.lower().replace("_", " ") + _EPOCHS[transition.epoch] + (" *" if transition.durable else "")
        lines.append(f"    {origin.__name__} --> {transition.to.__name__}: {label}")
    return "\n".join(lines) + "\n"
