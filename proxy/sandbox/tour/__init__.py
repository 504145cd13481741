"""The demo: chapters that run against a real control plane."""
