"""Checks of RBAC objects for mistakes with impersonation rules."""
