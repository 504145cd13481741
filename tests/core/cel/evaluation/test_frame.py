import pytest

from proxy.core.cel.errors import CostLimitExceeded
from proxy.core.cel.evaluation.frame import Frame


def test_a_frame_stops_above_its_limit() -> None:
    frame = Frame({}, 2, 10)
    frame.cost = 10
    frame.check()
    frame.cost = 11
    with pytest.raises(CostLimitExceeded):
        frame.check()
    assert frame.slots == [None, None]
