"""The section `log`: our own log."""

from typing import Literal

from pydantic import NonNegativeInt

from proxy.settings.strict import StrictModel


class LogSettings(StrictModel):
    """Our own log."""

    format: Literal["json", "text"] = "json"
    """One JSON object a line, or text for people."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """The least important line that is written. No level shows secrets."""

    repeats_per_minute: NonNegativeInt = 60
    """How often one warning or error is written in a minute; the rest is counted. 0: always."""
