"""How a node reaches the other nodes: connections, addresses, and which of them run Apache Kafka.

`NetworkClient` owns the connections that this node opens; `VoterAddresses` owns where each voter was last reached.
Doors: `NetworkClient`, `VoterAddresses`, `BootstrapServers`.
"""
