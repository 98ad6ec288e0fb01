"""Asks etcd and a gateway of ours the same at random, and finds where the answers differ."""
