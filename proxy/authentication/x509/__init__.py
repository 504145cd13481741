"""X.509 certificates and paths, parsed and verified by the rules of Go's crypto/x509."""
