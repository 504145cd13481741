"""The admin port: health and metrics, away from the data path."""
