"""Serves the key-value store over HTTP as etcd's v3 JSON gateway does.  Needs the extra `kv`."""
