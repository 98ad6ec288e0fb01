"""Two of Apache Kafka's controllers and a witness, under faults for as long as one likes."""
