"""Reuse of the results of a request for byte-identical requests on the same connection.

The results permit nothing by themselves: each use repeats the checks of state that time, other
requests or a reload may have changed. In any doubt the request is evaluated as if it were the
first. A small GET costs two thirds more without this (docs/performance.md).
"""

from proxy.core.request_cache import RequestCache, RequestResults


def reusable_results(cache: RequestCache | None, *, pipeline: object) -> RequestResults | None:
    """Return the results of an equal request if an evaluation would give them again, else None."""
    results = None if cache is None else cache.results
    if results is None or results.pipeline is not pipeline:
        return None
    try:
        return results if results.recheck() else None
    except Exception:  # noqa: BLE001 - the evaluation fails as well, and reports it
        return None


def store_results(cache: RequestCache | None, results: RequestResults) -> None:
    """Store the results of a forwarded request if equal requests can reuse them."""
    if cache is None or cache.results is results:
        return
    is_reusable = results.is_reusable and not results.request_info.is_long_running
    cache.results = results if is_reusable else None
