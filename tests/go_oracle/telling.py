"""Values as a person wants to read them in a reproduction: without what is empty."""

import dataclasses
from itertools import zip_longest

from tests.go_oracle.account import Account


def tell(value: object) -> str:
    """Return a value in short; fields that are empty or false are left out."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return _tell_fields(value, value._fields)
    if dataclasses.is_dataclass(value):
        return _tell_fields(value, [field.name for field in dataclasses.fields(value)])
    if isinstance(value, tuple):
        return f"[{', '.join(map(tell, value))}]"
    return repr(value)


def tell_difference(native: Account, ours: Account) -> str:
    """Return what two accounts differ in; of the checks only the first that differs."""
    lines = []
    for field, theirs, mine in zip(Account._fields, native, ours, strict=True):
        if theirs == mine:
            continue
        if field == "checks":
            lines += _first_other_check(native, ours)
        else:
            lines += [f"{field}:", f"  native {tell(theirs)}", f"  ours   {tell(mine)}"]
    return "\n".join(lines)


def _first_other_check(native: Account, ours: Account) -> list[str]:
    pairs = list(zip_longest(native.checks, ours.checks))
    index = next(index for index, (theirs, mine) in enumerate(pairs) if theirs != mine)
    theirs, mine = pairs[index]
    return [
        f"check {index + 1} (native asks {len(native.checks)}, we ask {len(ours.checks)}):",
        f"  native {tell(theirs)}",
        f"  ours   {tell(mine)}",
    ]


def _tell_fields(value: object, names: list[str] | tuple[str, ...]) -> str:
    told = [(name, getattr(value, name)) for name in names]
    shown = ", ".join(f"{name}={tell(content)}" for name, content in told if content)
    return f"{type(value).__name__}({shown})"
