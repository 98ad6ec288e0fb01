"""The end of a random run: the faults stop, first for a majority and then for all nodes, and the run demands progress.

A connected majority must elect a leader within a bounded number of election timeouts, and commit.  That leader must
stay, whatever the minority does.  After everything is healed, pending changes must commit everywhere or vanish
everywhere, and observers must catch up.  An unmet demand is a violation like any other.
"""
