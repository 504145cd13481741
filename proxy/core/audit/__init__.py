"""Audit events (`audit.k8s.io/v1`), audit policy and annotations."""
