"""From an empty cluster: installed by the book, run as the manifests say, and both stories work."""
