"""The API server side: our own credential, connections, and one exchange relayed both ways.

Forwards only what carries an Admission.
"""
