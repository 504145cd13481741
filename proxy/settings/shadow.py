"""Settings: what legacy impersonation would come to without it."""

from typing import Annotated

from pydantic import Field, PositiveInt

from proxy.settings.strict import StrictModel

Fraction = Annotated[float, Field(gt=0, le=1)]


class ShadowSettings(StrictModel):
    """Judge what legacy impersonation has allowed by the constrained rules, and tell; no more."""

    enabled: bool = False
    """On: each such request is judged once more beside its way. Its answer and its time stay as
    they are; metrics and the log tell what the constrained rules would have said."""

    sample: Fraction = 1.0
    """The part of these requests that is judged, chosen by chance."""

    queue_size: PositiveInt = 1000
    """Requests that wait to be judged; more are dropped, and counted."""

    in_flight: PositiveInt = 4
    """Requests judged at a time, each with one review under way. They have no part in
    reviews.inFlight, and wait for nobody there."""

    per_second: PositiveInt = 50
    """Requests judged per second in the long run; more are dropped, and counted. Equal ones within
    successTTL are judged once."""
