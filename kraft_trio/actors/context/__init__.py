"""What all actors of a node share: who the node is, its log and connections, its epoch, and what it has noticed.

Each of the notices has one writer, which its module names; findings, metrics and the status read them.
Doors: `NodeContext` for the node, `EpochContext` for one epoch.
"""
