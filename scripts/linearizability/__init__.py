"""Checks histories of clients for linearizability, with a search of its own and with porcupine (`porcupine/`).

The files are described in `kraft_trio/simulation/facts/history_file.py`.
"""
