"""What a request does: RequestInfo, list options, selectors, timeout."""
