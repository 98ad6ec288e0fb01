"""`kraft metadata`: what Apache Kafka's controllers have recorded, now, at an earlier moment, and how it changed."""
