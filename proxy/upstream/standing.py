"""What an API server thinks of a credential."""

from enum import Enum, auto


class Standing(Enum):
    """What an API server thinks of our credential."""

    ACCEPTED = auto()
    REFUSED = auto()
    UNKNOWN = auto()
