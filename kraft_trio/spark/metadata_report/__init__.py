"""The report of `kraft metadata report`: one cluster's history as pictures, from its metadata."""
