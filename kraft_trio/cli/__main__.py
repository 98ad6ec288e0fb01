"""`python -m kraft_trio.cli`: the `kraft` command without its script."""

from kraft_trio.cli import main

main()
