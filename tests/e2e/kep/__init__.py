"""KEP-5284 clause by clause, against the real API server; `docs/conformance.md` is the map."""
