"""What goes wrong while a control plane is found, built, started or asked."""

from proxy.core.errors import OperatorError


class SandboxError(OperatorError):
    """The sandbox cannot do what was asked; the message is meant for a person as it stands."""
