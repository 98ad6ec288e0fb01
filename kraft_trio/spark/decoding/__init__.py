"""Decodes batches and records into columns with numpy and Arrow, without Spark."""
