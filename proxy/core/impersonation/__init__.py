"""Constrained impersonation (KEP-5284): headers, modes, checks, evaluation, permit."""
