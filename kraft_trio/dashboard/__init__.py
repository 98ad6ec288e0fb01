"""The page that shows a quorum: asks every node, and sends what they tell to browsers.  Read-only."""
