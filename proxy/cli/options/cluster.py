"""Options that select the cluster to query, and the output format."""

import argparse
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from proxy.analysis.cluster import Cluster, is_in_cluster, open_cluster
from proxy.analysis.output import OUTPUTS
from proxy.cli.kubeconfig_source import KubeconfigSourceError, find_context


def add_cluster_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that select the cluster."""
    group = parser.add_argument_group("cluster")
    group.add_argument(
        "--kubeconfig", type=Path, metavar="FILE", help="kubeconfig file; default: as for kubectl"
    )
    group.add_argument(
        "--context",
        default="",
        metavar="NAME",
        help="context of the kubeconfig; default: the current one",
    )


def add_output_option(parser: argparse.ArgumentParser) -> None:
    """Add the option for the output format."""
    parser.add_argument("-o", "--output", choices=OUTPUTS, default=OUTPUTS[0])


def open_selected_cluster(options: argparse.Namespace) -> AbstractAsyncContextManager[Cluster]:
    """Return a context manager for the selected cluster; OperatorError if there is none."""
    try:
        found = find_context(options.context, options.kubeconfig)
    except KubeconfigSourceError:
        if options.context or options.kubeconfig or not is_in_cluster():
            raise
        return open_cluster(None)
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "chosen",
        "clusters": [{"name": "chosen", "cluster": found.cluster}],
        "users": [{"name": "chosen", "user": found.user}],
        "contexts": [{"name": "chosen", "context": {"cluster": "chosen", "user": "chosen"}}],
    }
    return open_cluster(document, namespace=found.namespace)
