"""Who gets how much of what is scarce: turns, rations, and what counts as one address.

Knows nothing of what is shared out, and decides nothing about who may do what.
"""
