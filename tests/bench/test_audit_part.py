"""What the Python part of an audit event costs."""

from bench.audit_part import measure_part


def test_an_event_costs_less_than_thrice_what_is_promised() -> None:
    """A bound for any machine: `make bench` holds the promise itself (15 us) for a whole proxy."""
    assert measure_part(batches=20).one_event < 45
