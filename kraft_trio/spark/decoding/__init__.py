"""Batches and records as columns, decoded with numpy and Arrow; no Spark in here."""
