"""`kraft server`: runs one node, and what its process needs around it: its log, open files, memory."""
