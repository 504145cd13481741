"""The proxy's own identities at the API server: accounts, user names, permissions."""
