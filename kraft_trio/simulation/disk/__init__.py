"""A disk in memory that loses unsynced data in a crash and whose calls can be made to fail."""
