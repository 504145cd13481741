"""Limits of the client side: connections, handshakes, memory, requests in flight."""
