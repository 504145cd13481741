"""What the proxy costs beside others, as ratios inside one run."""
