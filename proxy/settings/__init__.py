"""Typed, frozen settings: the config file and the audit policy, validated as a whole."""
