"""Figures that tell how large the library is, and how much of it a reader must know."""
