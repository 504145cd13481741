"""Types of expressions: declarations, inference and checks of literals."""
