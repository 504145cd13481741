"""Many resources and verbs in every mode: what was granted is open, and nothing beside it."""

from collections.abc import Iterator

from tests.e2e.kep.scenes import Scene
from tests.support.impersonation import Doors, Rights, is_refused_impersonation, may_do

# Each verb as a request on a collection or on one object. Nothing is ever written: what gets so
# far is malformed, which the API server finds out after every check that matters here.
REQUESTS = {
    "get": ("GET", "/x"),
    "list": ("GET", ""),
    "watch": ("GET", "?watch=1&resourceVersion=nonsense"),
    "create": ("POST", "?dryRun=nonsense"),
    "update": ("PUT", "/x?dryRun=nonsense"),
    "patch": ("PATCH", "/x?dryRun=nonsense"),
    "delete": ("DELETE", "/x?dryRun=nonsense"),
    "deletecollection": ("DELETE", "?dryRun=nonsense"),
}
COLLECTIONS = {
    "pods": "/api/v1/namespaces/default/pods",
    "configmaps": "/api/v1/namespaces/default/configmaps",
    "deployments": "/apis/apps/v1/namespaces/default/deployments",
}
SUBRESOURCES = {
    "get pods/log": ("GET", f"{COLLECTIONS['pods']}/x/log"),
    "get pods/status": ("GET", f"{COLLECTIONS['pods']}/x/status"),
    "update pods/status": ("PUT", f"{COLLECTIONS['pods']}/x/status?dryRun=nonsense"),
    "create pods/eviction": ("POST", f"{COLLECTIONS['pods']}/x/eviction?dryRun=nonsense"),
    "get deployments/scale": ("GET", f"{COLLECTIONS['deployments']}/x/scale"),
}


def all_requests() -> Iterator[tuple[str, str, str]]:
    for resource, collection in COLLECTIONS.items():
        for verb, (method, rest) in REQUESTS.items():
            yield f"{verb} {resource}", method, collection + rest
    for action, (method, path) in SUBRESOURCES.items():
        yield action, method, path


def test_exactly_the_granted_verbs_on_the_granted_resources_are_open(
    scene: Scene, doors: Doors, rights: Rights
) -> None:
    rights.grant(
        scene.caller,
        scene.identity,
        may_do(scene.mode, "get", "list", resources=["pods", "configmaps"]),
        may_do(scene.mode, "watch", "delete"),
        may_do(scene.mode, "create", "patch", resources=["deployments"], group="apps"),
        may_do(scene.mode, "update", resources=["pods/status"]),
    )

    opened = [
        action
        for action, method, path in all_requests()
        if not is_refused_impersonation(doors.ask(scene.caller, method, path, scene.headers))
    ]

    assert opened == [
        "get pods",
        "list pods",
        "watch pods",
        "delete pods",
        "get configmaps",
        "list configmaps",
        "create deployments",
        "patch deployments",
        "update pods/status",
    ]
