"""The proxy's own credentials: load, request and refresh them."""
