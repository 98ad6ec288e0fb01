"""Has TLC say whether traces of nodes are behaviours of the specification in spec/."""
