"""Making a mistake on purpose in code that has no switch for it."""


def put(owner: object, name: str, mistake: object) -> None:
    """Replace what exists; a mistake that no longer fits the code fails at once, not silently."""
    if not hasattr(owner, name):
        raise LookupError(f"{owner} has no {name}: the mistake must be made elsewhere now")
    setattr(owner, name, mistake)
