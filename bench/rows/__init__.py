"""The kinds of work, one file each; `catalogue.py` has all rows in the order they are played."""
