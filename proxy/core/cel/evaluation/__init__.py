"""Checked trees as closures, with the cost of each step."""
