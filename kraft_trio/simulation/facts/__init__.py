"""What is true of a run, gathered from devices and messages and not from what nodes believe."""
