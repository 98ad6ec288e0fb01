"""What is wrong with a quorum, and what its operator should do: pure rules over what its nodes tell.

`quorum_situation` is what is known; `findings/table.py` has a rule a row; docs/EXPLAIN.md is generated from it.
"""
