"""All implemented functions.

An overload is guarded by its declared types. A singleton implements every overload of a function
and looks at the types by itself.
"""

from proxy.core.cel.library import (
    lists,
    regex,
    sets_and_optionals,
    standard,
    strings,
    text_format,
    times,
)
from proxy.core.cel.library.arguments import Implementation
from proxy.core.cel.library.kubernetes import formats, network, quantity, semver, url

__all__ = ["OVERLOADS", "SINGLETONS", "Implementation"]

OVERLOADS: dict[str, Implementation] = {
    **standard.OVERLOADS,
    **strings.OVERLOADS,
    **text_format.OVERLOADS,
    **lists.OVERLOADS,
    **sets_and_optionals.OVERLOADS,
    **regex.OVERLOADS,
    **times.OVERLOADS,
    **network.OVERLOADS,
    **url.OVERLOADS,
    **quantity.OVERLOADS,
    **semver.OVERLOADS,
    **formats.OVERLOADS,
}
SINGLETONS: dict[str, Implementation] = {**standard.SINGLETONS, **lists.SINGLETONS}
