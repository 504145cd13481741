"""`python -m bench.dashboard FILE.png`: run a scenario on two proxies, and draw the dashboard."""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

from bench.dashboard.drama import SECONDS, create_clients, run_scenario
from bench.dashboard.panels import DASHBOARD, Panel, panels
from bench.dashboard.picture import draw
from bench.dashboard.programs import Series, Window, evaluate
from bench.dashboard.recording import Recording
from proxy.sandbox.api_server import ApiServer, ApiServerOptions
from proxy.sandbox.control_plane import ControlPlane
from proxy.sandbox.processes import LOOPBACK, ReservedPort
from proxy.sandbox.programs.binaries import find_binaries
from proxy.sandbox.proxy_process import ProxyProcess

REPLICAS = ("understudy-1", "understudy-2")
# Metrics are scraped every second, so ten seconds correspond to minutes in production.
INTERVAL, STEP = "10s", "1s"
STEP_SECONDS = 1.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the image, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.dashboard", description=__doc__)
    parser.add_argument("file", type=Path, help="the image file to write")
    file: Path = parser.parse_args(arguments).file
    recorded = record()
    shown = list(panels(json.loads(DASHBOARD.read_text())))
    draw(shown, answers(shown, recorded), file)
    print(f"{len(recorded)} series, {len(shown)} panels: {file}")
    return 0


def record() -> list[Series]:
    """Return the metrics of two proxies during the scenario."""
    with ControlPlane(find_binaries()) as control_plane, ExitStack() as running:
        options = ApiServerOptions(name="upstream", constrained_impersonation=False)
        server = running.enter_context(closing(control_plane.start_api_server(options)))
        parts = create_clients(control_plane, server)
        proxies = [running.enter_context(_replica(control_plane, server)) for _ in REPLICAS]
        pages = {name: url for name, (_, url) in zip(REPLICAS, proxies, strict=True)}
        with Recording(pages) as recording:
            run_scenario(server, [process for process, _ in proxies], parts)
        return recording.series


@contextmanager
def _replica(control_plane: ControlPlane, server: ApiServer) -> Iterator[tuple[ProxyProcess, str]]:
    """Run a proxy with an audit log; yield it and its metrics URL."""
    with ReservedPort() as port, tempfile.TemporaryDirectory() as directory:
        settings: dict[str, dict[str, Any]] = {
            "admin": {"address": f"{LOOPBACK}:{port.number}"},
            "audit": {"log": {"path": str(Path(directory) / "audit.log")}},
        }
        with ProxyProcess(control_plane, server, settings=settings) as process:
            yield process, f"http://{LOOPBACK}:{port.number}/metrics"


def answers(shown: Sequence[Panel], recorded: Sequence[Series]) -> list[list[Series]]:
    """Return each panel's series over the recording, labelled as in its legend."""
    times = [at for series in recorded for at, _ in series.samples]
    # After the scenario only the last watches remain, which end by themselves.
    window = Window(min(times), min(max(times), min(times) + SECONDS), STEP_SECONDS)
    queries = [query for panel in shown for query in panel.queries]
    texts = [query.expression(INTERVAL, STEP) for query in queries]
    found = iter(evaluate(window, recorded, texts))
    return [
        [
            Series({"label": query.label(series.labels)}, series.samples)
            for query in panel.queries
            for series in next(found)
        ]
        for panel in shown
    ]


if __name__ == "__main__":
    sys.exit(main())
