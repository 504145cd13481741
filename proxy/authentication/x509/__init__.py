"""X.509 certificates and paths, read and judged by the rules of Go's crypto/x509."""
