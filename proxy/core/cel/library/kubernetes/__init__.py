"""Functions on the types of the Kubernetes libraries."""
