"""`understudy explain`: why a request is allowed or denied, and what to grant."""

import argparse
import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

from proxy.analysis.cluster import Cluster
from proxy.analysis.explain import ExplainResult, GrantOptions, explain_request
from proxy.analysis.explain_output import render_document, render_text
from proxy.analysis.explain_warnings import DEFAULT_FORWARDER
from proxy.analysis.output import colors_for, document_text, manifests_text
from proxy.cli.audit_log_reader import find_event, read_event
from proxy.cli.options.cluster import add_cluster_options, add_output_option, open_selected_cluster
from proxy.cli.options.kubectl import apply_kubectl_command
from proxy.cli.options.request import (
    RequestOptionError,
    UsageError,
    add_request_options,
    check_usage,
    decision_settings,
    exit_with_usage,
    explain_request_from,
    request_hints,
)
from proxy.cli.registry import CommandRegistry
from proxy.core.audit.event import InvalidAuditEvent
from proxy.core.explain.explanation import ExplainRequest
from proxy.core.explain.recorded_request import (
    RecordedOutcome,
    read_recorded,
    read_request,
)

_DESCRIPTION = """\
Explain why the proxy allows or denies a request: which modes apply, every access review and its
result, the response to the client, whether the impersonated user may perform the action, and the
smallest constrained RBAC that would allow exactly this. The cluster is queried with your
kubeconfig. No running proxy is needed, and nothing is changed.
"""
_USAGE = """%(prog)s --user USER [options] VERB RESOURCE[/SUB] [NAME]
       %(prog)s --user USER [options] -- kubectl COMMAND ...
       %(prog)s [options] --audit-id ID --audit-log FILE"""
_EPILOG = """\
examples:
  understudy explain --user bob --as alice list pods -n web
  understudy explain --user bob --as alice list pods -n web --for-kubectl --grant-only \\
    | kubectl apply -f -
  understudy explain --user bob -- kubectl --as alice exec web-1
  understudy explain --audit-id 5c0ff1e5-... --audit-log audit.log

exit codes: 0 explained, 1 error (with --grant-only: nothing to grant), 2 invalid options
"""


def register(commands: CommandRegistry) -> None:
    """Add the command and its arguments."""
    parser = commands.add_parser(
        "explain",
        help="explain why a request is allowed or denied, and what to grant",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.usage = _USAGE
    add_request_options(parser)
    group = parser.add_argument_group("recorded request")
    group.add_argument(
        "--audit-event",
        type=Path,
        metavar="FILE",
        help="audit event of the request; - is standard input",
    )
    group.add_argument(
        "--audit-id", metavar="ID", help="audit ID of the request; needs --audit-log"
    )
    group.add_argument(
        "--audit-log",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="audit log of the proxy, compressed or not; may be repeated; - is standard input",
    )
    add_cluster_options(parser)
    add_output_option(parser)
    parser.add_argument(
        "--grant-only", action="store_true", help="print only the manifests to apply"
    )
    parser.add_argument(
        "--for-kubectl",
        action="store_true",
        help="also grant what kubectl requests besides: discovery, the pod of exec, attach, "
        "port-forward, cp and logs, both verbs of a stream, get before patch, list before watch",
    )
    parser.add_argument(
        "--name",
        dest="name_of_grant",
        metavar="NAME",
        help="name of the roles and bindings; default: by caller and content",
    )
    parser.add_argument(
        "--anyway",
        action="store_true",
        help="print a grant even if the target lacks the permission itself, or the API server does "
        "not serve the resource",
    )
    parser.add_argument(
        "--forwarder",
        metavar="USER",
        help=f"user name of the proxy's forwarder; default: {DEFAULT_FORWARDER}",
    )
    parser.set_defaults(run=run, kubectl=None)


def run(options: argparse.Namespace) -> int:
    """Explain one request."""
    try:
        if options.kubectl is not None:
            apply_kubectl_command(options, options.kubectl)
        recorded, find_request = _find_request_source(options)
    except UsageError as error:
        exit_with_usage(options, error)
    result = asyncio.run(_explain(options, find_request))
    if options.grant_only:
        return _print_grant(result)
    notes = request_hints(result.explanation.request)
    if options.output == "table":
        colors = colors_for(sys.stdout, os.environ)
        text = render_text(result, colors, recorded=recorded, notes=notes)
    else:
        document = render_document(result, recorded=recorded, notes=notes)
        text = document_text(document, options.output)
    sys.stdout.write(text)
    return 0


_FindRequest = Callable[[Cluster], Awaitable[ExplainRequest]]


async def _explain(options: argparse.Namespace, find_request: _FindRequest) -> ExplainResult:
    settings = decision_settings(options)
    async with open_selected_cluster(options) as cluster:
        request = await find_request(cluster)
        grant_options = GrantOptions(
            for_kubectl=options.for_kubectl,
            anyway=options.anyway,
            name=options.name_of_grant,
            made_at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            forwarder=options.forwarder,
        )
        return await explain_request(cluster, request, settings, grant_options)


def _find_request_source(
    options: argparse.Namespace,
) -> tuple[RecordedOutcome | None, _FindRequest]:
    """Return the recorded outcome of a past request, and a function that returns the request.

    The outcome is None if the options describe the request.
    """
    if (options.audit_id is None) != (not options.audit_log):
        raise UsageError("--audit-id and --audit-log must be used together")
    event = None
    if options.audit_id is not None:
        event = find_event(options.audit_id, options.audit_log)
    elif options.audit_event is not None:
        event = read_event(options.audit_event)
    if event is None:
        check_usage(options)
        return None, lambda cluster: explain_request_from(
            options, cluster, allow_unknown=options.anyway
        )
    if options.user is not None or options.verb is not None or options.raw is not None:
        raise UsageError("an audit event cannot be combined with --user, VERB or --raw")
    try:
        recorded, request = read_recorded(event), read_request(event)
    except InvalidAuditEvent as error:
        raise RequestOptionError(f"this event cannot be explained: {error}") from error

    async def recorded_request(_cluster: Cluster) -> ExplainRequest:
        return request

    return recorded, recorded_request


def _print_grant(result: ExplainResult) -> int:
    for note in (*request_hints(result.explanation.request), *result.warnings):
        print(f"understudy: warning: {note}", file=sys.stderr)
    if result.grant:
        sys.stdout.write(manifests_text(result.grant))
        return 0
    reason = result.no_grant_reason or "the caller may already impersonate that user"
    explanation = result.explanation
    if explanation.request.wanted_user is not None and not explanation.is_target_allowed:
        reason += "; use --anyway to print a grant nevertheless"
    print(f"understudy: nothing to grant: {reason}", file=sys.stderr)
    return 1
