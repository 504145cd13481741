"""Errors of the sandbox: finding, building, starting or calling a control plane."""

from proxy.core.errors import OperatorError


class SandboxError(OperatorError):
    """An operation of the sandbox failed; the message can be shown to the operator unchanged."""
