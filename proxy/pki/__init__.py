"""A certificate authority for development, tests and the sidecar."""
