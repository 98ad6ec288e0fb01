"""What the operating system offers.  Everything else asks the files of this package, and names no system itself.

Each file decides once, when it is imported, by what Python's modules have: on Linux its names are the functions of `os`
themselves.  docs/reference/systems.md lists the supported systems and what differs.
"""
