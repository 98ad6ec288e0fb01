"""Scenario scripts: steps as lines of text, and how they are run and narrated."""
