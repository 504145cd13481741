"""RBAC rules and bindings: model, grants, queries."""
