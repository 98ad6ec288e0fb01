"""`python -m kraft_trio.cli` runs the `kraft` command."""

from kraft_trio.cli import main

main()
