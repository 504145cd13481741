from proxy.audit.state import AuditState, NullSink
from proxy.core.audit.limits import EventLimits
from proxy.core.audit.policy import AuditPolicy


def test_new_limits_replace_the_fragments_and_equal_limits_keep_them() -> None:
    state = AuditState(NullSink(), AuditPolicy([]), body_bytes=0)
    first = state.fragments

    state.set_limits(EventLimits())
    kept = state.fragments
    state.set_limits(EventLimits(uri_bytes=300))

    assert kept is first
    assert state.fragments is not first
    assert state.fragments.limits == EventLimits(uri_bytes=300)
