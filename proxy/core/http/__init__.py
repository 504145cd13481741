"""Headers, Status bodies, front proxy headers, WebSocket subprotocols."""
