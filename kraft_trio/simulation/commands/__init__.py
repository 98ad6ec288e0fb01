"""A user's state machine under test: every replica of a run is compared with the others and with a model."""
