"""Audit: one record per request, written to the access log and to the audit backends."""
