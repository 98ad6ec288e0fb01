"""Kafka's record batches as bytes: headers, records, compression, control records, and what makes a batch valid.

Nothing here opens a file or keeps state.
Doors: `batch` to read and write, `record_check` for batches of clients, `control_records` for those of the quorum.
"""
