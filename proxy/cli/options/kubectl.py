"""Reading of a kubectl command line as a request, for `explain -- kubectl ...`."""

import argparse
from collections.abc import Sequence
from typing import NamedTuple, NoReturn

from proxy.cli.options.impersonation import parse_extra
from proxy.cli.options.request import UsageError

_PROGRAM = "kubectl"
_STREAM_COMMANDS = {"exec": "exec", "attach": "attach", "port-forward": "portforward"}
# The verb of the request that decides each command on TYPE NAME.
_OBJECT_VERBS = {
    "annotate": "patch",
    "delete": "delete",
    "describe": "get",
    "edit": "patch",
    "label": "patch",
    "patch": "patch",
    "scale": "patch",
}
_FILE_VERBS = {"apply": "patch", "create": "create", "replace": "update"}
_FLAGS = (
    *("--follow", "--stdin", "--tty", "--previous", "--all", "--overwrite", "--force"),
    *("-i", "-t", "-q"),
)
_VALUES = (
    *(
        "--context",
        "--cluster",
        "--kubeconfig",
        "--user",
        "--token",
        "--server",
        "-s",
        "--cache-dir",
    ),
    *("-o", "--output", "-l", "--selector", "-c", "--container", "--tail", "--since", "--replicas"),
    *("--field-selector", "--type", "--request-timeout", "--address", "-v"),
)


class _Parser(argparse.ArgumentParser):
    """A parser that raises UsageError instead of exiting."""

    def error(self, message: str) -> NoReturn:
        """Raise the error."""
        raise UsageError(f"cannot read the kubectl command: {message}")


class DecidingRequest(NamedTuple):
    """Verb, resource and name of the request that decides a kubectl command."""

    verb: str
    resource: str
    name: str | None


def apply_kubectl_command(options: argparse.Namespace, words: Sequence[str]) -> None:
    """Set the request options from a kubectl command line; UsageError if it has no one request.

    Everything else that the command line names, such as its kubeconfig, is the caller's own and is
    not used.
    """
    if words[:1] == [_PROGRAM]:
        words = words[1:]
    # What follows the dashes runs in the container.
    head = words[: words.index("--")] if "--" in words else words
    given, unknown = _parser().parse_known_args(head)
    positional = [word for word in (*given.words, *unknown) if not word.startswith("-")]
    if not positional:
        raise UsageError("the kubectl command has no verb, such as get or exec")
    command, arguments = positional[0], positional[1:]
    request = _read(command, arguments, is_watch=given.watch)
    options.verb, options.resource, options.name = request
    for name in ("namespace", "as_user"):
        if getattr(given, name) is not None:
            setattr(options, name, getattr(given, name))
    options.all_namespaces = options.all_namespaces or given.all_namespaces
    options.as_group = [*options.as_group, *given.as_group]
    options.as_uid = given.as_uid or options.as_uid
    options.as_user_extra = [*options.as_user_extra, *given.as_user_extra]
    options.for_kubectl = True


def _parser() -> _Parser:
    parser = _Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--as", dest="as_user")
    parser.add_argument("--as-group", action="append", default=[])
    parser.add_argument("--as-uid", default="")
    parser.add_argument("--as-user-extra", action="append", default=[], type=parse_extra)
    parser.add_argument("-n", "--namespace")
    parser.add_argument("-A", "--all-namespaces", action="store_true")
    parser.add_argument("-w", "--watch", "--watch-only", action="store_true")
    for flag in _FLAGS:
        parser.add_argument(flag, action="store_true", dest=f"flag{flag}")
    for value in _VALUES:
        parser.add_argument(value, dest=f"value{value}")
    return parser


def _read(command: str, arguments: Sequence[str], *, is_watch: bool) -> DecidingRequest:
    if command == "cp":
        return DecidingRequest("create", "pods/exec", _copied_pod(arguments))
    if command in _STREAM_COMMANDS:
        pod = _pod_name(command, arguments)
        return DecidingRequest("create", f"pods/{_STREAM_COMMANDS[command]}", pod)
    if command in {"logs", "log"}:
        return DecidingRequest("get", "pods/log", _pod_name(command, arguments))
    if command in _FILE_VERBS:
        raise UsageError(
            f"the objects of `kubectl {command}` are in a file: use "
            f"{_FILE_VERBS[command]} RESOURCE NAME --for-kubectl"
        )
    if command != "get" and command not in _OBJECT_VERBS:
        raise UsageError(
            f"`kubectl {command}` is not known here: use VERB RESOURCE [NAME] --for-kubectl"
        )
    resource, name = _object_of(command, arguments)
    verb = _OBJECT_VERBS.get(command)
    if verb is None:
        verb = "watch" if is_watch else "get" if name else "list"
    return DecidingRequest(verb, resource, name)


def _object_of(command: str, arguments: Sequence[str]) -> tuple[str, str | None]:
    """Return the resource and the name; UsageError unless there is exactly one object."""
    if not arguments:
        raise UsageError(f"`kubectl {command}` needs a resource, such as pods")
    resource, slash, name = arguments[0].partition("/")
    rest = arguments[1:]
    if not slash and rest:
        name, rest = rest[0], rest[1:]
    # The rest of `label` and `annotate` are the labels and annotations.
    if "," in resource or (rest and command not in {"annotate", "label"}):
        raise UsageError("the kubectl command names several objects: explain them one by one")
    return (f"{resource}/scale" if command == "scale" else resource), name or None


def _pod_name(command: str, arguments: Sequence[str]) -> str:
    if not arguments:
        raise UsageError(f"`kubectl {command}` needs a pod")
    kind, slash, name = arguments[0].partition("/")
    if not slash:
        return kind
    if kind not in {"pod", "pods", "po"}:
        raise UsageError(f"kubectl chooses a pod of {arguments[0]}: name the pod instead")
    return name


def _copied_pod(arguments: Sequence[str]) -> str:
    remote = [word.partition(":")[0] for word in arguments if ":" in word]
    if len(remote) != 1:
        raise UsageError("`kubectl cp` needs one path in a pod, as POD:PATH")
    return remote[0].rpartition("/")[2]
