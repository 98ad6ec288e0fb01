"""A shop's cluster of Apache Kafka's own controllers and brokers, and what happens to it in a few minutes."""
