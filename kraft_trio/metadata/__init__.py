"""What the metadata records of Apache Kafka's controllers mean (KIP-631): topics, brokers, settings, at any moment.

`history` applies records in their order, with their transactions, and `replay` says what each of them changes.  `image`
is the result so far.  `entities` lists the kinds of things in it, with their columns.
"""
