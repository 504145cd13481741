"""A picture of the Grafana dashboard on data of a real run: `make dashboard-picture`."""
