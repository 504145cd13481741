"""An authorization webhook that remembers what it was asked about whom.

    with running_webhook() as webhook:
        webhook.permit(alice, lambda asked: asked.get("resource") == "pods")
        webhook.asked_about(alice)

Impersonation is refused unless it was permitted; whatever else somebody does is allowed.
"""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from typing_extensions import override

from proxy.sandbox.processes import LOOPBACK
from proxy.sandbox.proxy_rbac import ALL_EXTRAS, forwarder_name

# The attributes of a SubjectAccessReview, of a resource or of a path.
Attributes = dict[str, Any]
Permit = Callable[[Attributes], bool]

REASON = "the webhook says no"


class Webhook:
    """What is permitted, and what was asked."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._permits: dict[str, Permit] = {forwarder_name([ALL_EXTRAS]): lambda _: True}
        self._asked: list[dict[str, Any]] = []

    def permit(self, user: str, permit: Permit) -> None:
        """Answer what somebody asks about impersonation by this from now on."""
        self._permits[user] = permit

    def asked_about(self, user: str) -> list[dict[str, Any]]:
        """Return the specs of all reviews about a user's impersonation, in order."""
        return [
            spec
            for spec in self._asked
            if spec["user"] == user and is_impersonation(attributes_of(spec))
        ]

    def attributes(self, user: str) -> list[Attributes]:
        """Return what was asked about a user's impersonation, in order."""
        return [attributes_of(spec) for spec in self.asked_about(user)]

    def answer(self, spec: dict[str, Any]) -> dict[str, Any]:
        """Remember a review and decide it."""
        self._asked.append(spec)
        asked = attributes_of(spec)
        permit = self._permits.get(spec["user"])
        allowed = not is_impersonation(asked) or (permit is not None and permit(asked))
        return {"allowed": allowed, "reason": "" if allowed else REASON}


def attributes_of(spec: dict[str, Any]) -> Attributes:
    """Return what a review asks for."""
    attributes: Attributes = spec.get("resourceAttributes") or spec["nonResourceAttributes"]
    return attributes


def is_impersonation(asked: Attributes) -> bool:
    """Tell whether the question is about impersonating."""
    verb: str = asked["verb"]
    return verb.startswith("impersonate")


@contextmanager
def running_webhook() -> Iterator[Webhook]:
    """Serve for the time of the context."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            answer = json.dumps({**review, "status": webhook.answer(review["spec"])}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(answer)

        @override
        def log_message(self, format: str, *args: object) -> None:
            """Stay silent: the tests' output is for failures."""

    with ThreadingHTTPServer((LOOPBACK, 0), Handler) as server:
        webhook = Webhook(f"http://{LOOPBACK}:{server.server_port}")
        worker = threading.Thread(target=server.serve_forever, args=(0.02,))
        worker.start()
        try:
            yield webhook
        finally:
            server.shutdown()
            worker.join()
