"""Kafka's messages as classes, one file for each API, and the connections that carry them."""
