"""An aggregated API server for development and tests."""
