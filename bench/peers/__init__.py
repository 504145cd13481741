"""Real programs that one would use instead: how each is built and started as a contestant."""
