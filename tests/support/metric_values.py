"""The values of one metric in a registry, by its labels."""

from prometheus_client import CollectorRegistry


def metric_values(registry: CollectorRegistry, name: str) -> dict[str, float]:
    """Return the samples of this exact name that are not zero; several label values are joined."""
    return {
        " ".join(sample.labels.values()): sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name == name and sample.value
    }
