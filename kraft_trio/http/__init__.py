"""An HTTP/1.1 server: it bounds connections, sizes and times, and knows nothing of what it serves."""
