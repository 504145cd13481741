"""Request attributes: RequestInfo, list options, selectors, timeout."""
