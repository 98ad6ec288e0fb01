"""The actors of a node, in rooms by subject.

An actor is a class that a nursery of the node's tree runs (docs/explanation/architecture.md#the-nursery-tree).  It
alone writes its state.  Others send to it, call a method that does not wait, or read what it publishes.  A room imports
only rooms that come lower in the list of pyproject.toml.
"""
