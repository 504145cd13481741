"""Results of Go's standard library that clients see: quoting, URLs, JSON, durations."""
