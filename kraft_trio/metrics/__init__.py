"""What a node measures, and the forms in which it exports that."""
