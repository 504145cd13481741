"""Join of the proxy's audit log with the cluster's."""
