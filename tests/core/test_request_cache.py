import pytest

from proxy.core.request_cache import RequestCache

SLOTS = ("results", "outbound_head", "access_log_template", "event_template")


def test_a_new_request_cache_is_empty() -> None:
    cache = RequestCache()

    assert [getattr(cache, slot) for slot in SLOTS] == [None] * len(SLOTS)


def test_a_request_cache_has_no_slots_but_the_named_ones() -> None:
    """A component that stores a value under another name would share an untyped bag."""
    cache = RequestCache()

    assert RequestCache.__slots__ == tuple(sorted(SLOTS))
    with pytest.raises(AttributeError):
        cache.other = 1  # type: ignore[attr-defined]
