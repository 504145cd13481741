"""What tests share about the real control plane."""

import itertools
from pathlib import Path

from proxy.sandbox.api_client import ApiClient
from proxy.sandbox.api_server import ApiServer
from proxy.sandbox.identities import TokenUser

TOKEN_USERS = (
    TokenUser("alice", uid="alice-uid", groups=("developers", "testers")),
    TokenUser("bob", uid="bob-uid", groups=("developers",)),
    TokenUser("carol"),
)

_numbers = itertools.count(1)


def fresh_name(prefix: str = "test") -> str:
    """Return a name no other test of this run uses, so that tests can share one cluster."""
    return f"{prefix}-{next(_numbers)}"


def who_am_i(client: ApiClient, *headers: tuple[str, str]) -> dict[str, object]:
    """Return the userInfo the API server sees, with these headers if any."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    user: dict[str, object] = client.call("POST", path, headers=headers, body=review)["status"][
        "userInfo"
    ]
    return user


def emulated_version(server: ApiServer) -> str:
    """Return the minor version whose behaviour an API server shows."""
    answer = server.admin.call("GET", "/version")
    return f"{answer['emulationMajor']}.{answer['emulationMinor']}"


def is_gate_on(server: ApiServer) -> bool:
    """Tell whether constrained impersonation is on."""
    metrics = server.admin.request("GET", "/metrics").body.decode()
    gate = 'kubernetes_feature_enabled{name="ConstrainedImpersonation"'
    # A version that does not know the gate has no such line.
    return any(line.startswith(gate) and line.endswith(" 1") for line in metrics.splitlines())


def is_alive(pid: int) -> bool:
    """Tell whether a process runs; one that only waits to be reaped does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def processes_naming(directory: Path) -> list[list[str]]:
    """Return the command line of every running process that mentions a directory."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().decode(errors="replace").split("\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if any(str(directory) in word for word in words):
            found.append(words)
    return found
