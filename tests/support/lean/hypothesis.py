"""Stands in for Hypothesis in the processes that tests start.

kio imports Hypothesis if it is installed, and Hypothesis imports pytest: a fifth of what starting a node costs.
"""

raise ImportError("processes that tests start do without Hypothesis")
