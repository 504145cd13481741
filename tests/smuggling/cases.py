"""One case: bytes for one connection, and what has to become of them."""

from dataclasses import dataclass
from enum import Enum, auto


class Fate(Enum):
    """What becomes of the bytes of a case."""

    SERVED = auto()
    """Every request in them is carried out."""

    REFUSED = auto()
    """The first request in them already ends the connection, and no request is carried out."""

    UNFINISHED = auto()
    """The last request in them is not complete; those before it are carried out."""

    ANY = auto()
    """Whatever the proxy understands, as long as everybody behind it understands the same."""


@dataclass(frozen=True, slots=True)
class Case:
    """Bytes as one client sends them. `served` counts the requests that are carried out."""

    name: str
    wire: bytes
    fate: Fate = Fate.ANY
    served: int = 0
