"""The page that shows a quorum: asks every node, and sends the answers to browsers.  Read-only."""
