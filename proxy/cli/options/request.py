"""Options that describe a request: its caller, the wanted user, and the action."""

import argparse
import contextlib
import os
import sys
from difflib import get_close_matches
from pathlib import Path
from typing import NoReturn

from proxy.analysis.cluster import Cluster, ClusterError
from proxy.analysis.discovery import find_resource, resource_from_name
from proxy.analysis.explain import DecisionSettings
from proxy.analysis.grant_check import cluster_catalog
from proxy.cli.options.impersonation import (
    add_impersonation_options,
    collect_extra,
    parse_extra,
    unchecked_user_from,
)
from proxy.core.errors import OperatorError, StatusError
from proxy.core.explain.explanation import ExplainRequest
from proxy.core.impersonation.checks import ImpersonationRules
from proxy.core.rbac.lint.verbs import REQUEST_VERBS
from proxy.core.rbac.resources import BUILT_IN
from proxy.core.requestinfo.request_info import (
    ObjectRef,
    RequestInfo,
    ResourceKind,
    parse_request_info,
    request_info_for,
)
from proxy.core.userinfo import (
    Caller,
    UserInfo,
    authenticated_groups,
    service_account,
    service_account_groups,
)

_COLLECTION_VERBS = {"get": "list", "delete": "deletecollection"}
_MIN_SIMILARITY = 0.6


class UnknownResourceError(OperatorError):
    """The API server has no such resource."""


class RequestOptionError(OperatorError):
    """The described request is invalid."""


class UsageError(Exception):
    """The options are invalid in combination; the message states the reason."""


def add_verb_resource_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that describe an action."""
    parser.add_argument("verb", nargs="?", metavar="VERB", help="get, list, create, ...")
    parser.add_argument(
        "resource",
        nargs="?",
        metavar="RESOURCE[/SUB]",
        help="as in kubectl: pods, po, deployments.apps, pods/exec",
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="name of the object, if any")
    parser.add_argument(
        "-n", "--namespace", metavar="NAMESPACE", help="namespace; default: that of the context"
    )
    parser.add_argument(
        "-A", "--all-namespaces", action="store_true", help="the action covers all namespaces"
    )
    parser.add_argument(
        "--raw", metavar="PATH", help="path with its query, instead of VERB RESOURCE"
    )
    parser.add_argument(
        "--method", default="GET", metavar="METHOD", help="method of --raw; default: GET"
    )
    parser.set_defaults(fail=parser.error)


def add_request_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that describe a request."""
    add_verb_resource_options(parser)
    group = parser.add_argument_group("caller")
    group.add_argument("--user", metavar="USER", help="user name of the caller")
    group.add_argument(
        "--group",
        action="append",
        default=[],
        metavar="GROUP",
        help="group of the caller; may be repeated; implied groups are added",
    )
    group.add_argument("--uid", default="", metavar="UID", help="uid of the caller")
    group.add_argument(
        "--extra",
        action="append",
        default=[],
        type=parse_extra,
        metavar="KEY=VALUE",
        help="extra of the caller, such as authentication.kubernetes.io/node-name=NODE; may be"
        " repeated",
    )
    add_impersonation_options(parser, required=False)
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="config file of the proxy, if its impersonation settings are not the defaults",
    )


def exit_with_usage(options: argparse.Namespace, error: UsageError) -> NoReturn:
    """Exit as argparse does: usage, message, exit code 2."""
    options.fail(str(error))
    raise error


def check_usage(options: argparse.Namespace) -> None:
    """Raise UsageError unless the options describe one request."""
    if options.user is None:
        raise UsageError("--user is required")
    if not options.user:
        raise UsageError("--user must not be empty")
    check_request_usage(options)


def check_request_usage(options: argparse.Namespace) -> None:
    """Raise UsageError unless the options describe one action."""
    if (options.raw is None) == (options.resource is None):
        raise UsageError("specify VERB RESOURCE, or --raw PATH")
    if options.raw is not None and options.verb is not None:
        raise UsageError("use --raw with --method, not with a verb")
    if options.verb is not None and options.verb not in REQUEST_VERBS:
        raise UsageError(f"no request has the verb {options.verb}{_verb_suggestion(options.verb)}")
    if options.namespace is not None and options.all_namespaces:
        raise UsageError("use either --namespace or --all-namespaces")


def _verb_suggestion(verb: str) -> str:
    close = get_close_matches(verb.lower(), REQUEST_VERBS, n=1, cutoff=_MIN_SIMILARITY)
    return f"; did you mean {close[0]}?" if close else f": use {', '.join(REQUEST_VERBS)}"


async def explain_request_from(
    options: argparse.Namespace, cluster: Cluster, *, allow_unknown: bool = True
) -> ExplainRequest:
    """Return the request that the options describe."""
    caller, wanted_user = _caller(options), unchecked_user_from(options)
    info = await request_info_from(options, cluster, allow_unknown=allow_unknown)
    return ExplainRequest(caller, wanted_user, info)


def decision_settings(options: argparse.Namespace) -> DecisionSettings:
    """Return the decision settings of a config file, or the defaults."""
    if options.config is None:
        return DecisionSettings(ImpersonationRules())
    # Imported here, because these import most of the proxy.
    from proxy.runtime.builders import (  # noqa: PLC0415
        base_restrictions,
        decision_rules,
    )
    from proxy.settings.loader import load_settings  # noqa: PLC0415

    settings = load_settings(options.config)
    return DecisionSettings(decision_rules(settings.impersonation), base_restrictions(settings))


def request_hints(request: ExplainRequest) -> list[str]:
    """Return hints about likely mistakes in a request."""
    request_info = request.request_info
    if (
        request_info.is_resource
        and not request_info.name
        and request_info.verb in _COLLECTION_VERBS
    ):
        meant = _COLLECTION_VERBS[request_info.verb]
        return [
            f"no request has the verb {request_info.verb} without a name; did you mean {meant}?"
        ]
    return []


def _caller(options: argparse.Namespace) -> Caller:
    groups: tuple[str, ...] = tuple(options.group)
    account = service_account(options.user)
    if account is not None and not groups:
        groups = service_account_groups(account.namespace)
    extra = collect_extra(options.extra)
    groups = authenticated_groups(options.user, groups)
    return Caller(UserInfo(options.user, options.uid, groups, extra))


async def _resource_problem(
    cluster: Cluster, resource: str, subresource: str, kind: ResourceKind | None
) -> str:
    """Return that the API server does not serve a resource, with a suggestion; empty if it does."""
    if kind is not None and not subresource:
        return ""
    name, _, group = resource.lower().partition(".")
    if kind is not None:
        group, name = kind.group, f"{kind.resource}/{subresource}"
        if BUILT_IN.find(group, name) is not None:
            return ""
    catalog = BUILT_IN
    with contextlib.suppress(ClusterError):  # a suggestion is not worth an error
        catalog = await cluster_catalog(cluster)
    if kind is not None:
        # Discovery of a group may be incomplete. A group without entries is unknown.
        if not catalog.knows_group(group) or catalog.find(group, name) is not None:
            return ""
        resource = f"{resource}/{subresource}"
    close = catalog.suggest(group, name)
    hint = f"; did you mean {close}?" if close is not None else ""
    return f"the API server has no resource {resource}{hint}"


async def request_info_from(
    options: argparse.Namespace, cluster: Cluster, *, allow_unknown: bool = True
) -> RequestInfo:
    """Return the action that the options describe.

    Raises UnknownResourceError for a resource that the API server does not serve, unless they are
    allowed.
    """
    try:
        if options.raw is not None:
            return parse_request_info(options.method.upper().encode(), os.fsencode(options.raw))
        resource, _, subresource = options.resource.partition("/")
        kind = await find_resource(cluster, resource)
        problem = await _resource_problem(cluster, resource, subresource, kind)
        if problem and not allow_unknown:
            raise UnknownResourceError(problem)
        if problem:
            print(f"understudy: {problem}", file=sys.stderr)
        if kind is None:
            kind = resource_from_name(resource)
        namespace = ""
        if kind.is_namespaced and not options.all_namespaces:
            namespace = options.namespace or cluster.namespace
        return request_info_for(
            options.verb, kind, ObjectRef(namespace, options.name or "", subresource)
        )
    except StatusError as error:
        raise RequestOptionError(f"rejected before any access check: {error.message}") from error
