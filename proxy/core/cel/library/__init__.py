"""Functions of the environment, each with the overload that it implements."""
