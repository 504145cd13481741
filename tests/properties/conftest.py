"""No deadline for a single example: a busy machine is not a failed property."""

from hypothesis import settings

settings.register_profile("properties", deadline=None)
settings.load_profile("properties")
