"""Impersonation usage: what audit logs show, and the grants that replace unrestricted rules."""
