"""An image of the Grafana dashboard with data of a real run: `make dashboard-picture`."""
