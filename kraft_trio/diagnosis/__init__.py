"""What is wrong with a quorum, and what its operator should do: pure rules over what its nodes tell.

`quorum_situation` holds what is known.  `findings/table.py` has one rule a row; docs/reference/findings.md is generated
from it.
"""
