"""The kinds of work, one module each; `catalogue.py` has all rows in the order they are run."""
