"""What tasks wait on: mailboxes, published values, and queues in which each address has its turn.

Each class says who wakes whom, and in whose step.  It owns its waiting tasks, and knows no node.
Doors: `ServedMailbox`, `Published`, `AddressTurns`, `MemoryBudget`, `RemovableHeap`.
"""
