"""`python -m kraft_trio` runs the `kraft` command."""

from kraft_trio.cli import main

main()
