"""Binaries of the control plane: find, download or build them."""
