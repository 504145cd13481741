"""Which tests have passed in this run, without their parameters; filled by tests/conftest.py."""

PASSED: set[str] = set()
FAILED: set[str] = set()
