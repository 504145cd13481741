"""The API server side of the data path: credentials, connections, and the relay.

A request is forwarded only with a Permit.
"""
