"""HTTP/1.1 heads and framing, TLS over memory: bytes in, bytes out, no policy."""
