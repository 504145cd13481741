"""Requests that an earlier one may have opened a door for: the same but for one thing.

What the native server remembers of a success, it must not take for another one; nor may we, and
we must not forget what it remembers.
"""

from collections.abc import Callable
from dataclasses import replace
from random import Random

from proxy.core.userinfo import NODE_NAME_KEY, make_extra
from tests.go_oracle.callers import ALL_NO, NODES, make_headers, make_requestor, make_script
from tests.go_oracle.cases import Step
from tests.go_oracle.targets import make_target

_SELECTORS = (b"a=b", b"a%3Db", b"a==b", b"a+in+(b)", b"a!=b", b"a", b"a>1", b"b=a", b"!a", b"")


def make_follow_up(random: Random, earlier: Step) -> Step:
    """Return a request after an earlier one; most often refused if nothing is remembered."""
    step = random.choice(_CHANGES)(random, earlier)
    kind = random.random()
    if kind < 0.5:
        return replace(step, script=ALL_NO)
    return replace(step, script=make_script(random)) if kind < 0.9 else step


def _repeat(random: Random, step: Step) -> Step:
    return step


def _change_target(random: Random, step: Step) -> Step:
    return replace(step, target=make_target(random))


def _respell_target(random: Random, step: Step) -> Step:
    path, mark, query = step.target.partition(b"?")
    variants = (
        path + b"/" + mark + query,
        b"/" + path + mark + query,
        path + b"?x=1" + (b"&" if mark else b"") + query,
        path.replace(b"o", b"%6f") + mark + query,
        path.replace(b"v1", b"v2") + mark + query,
        path.replace(b"default", b"other") + mark + query,
    )
    return replace(step, target=random.choice(variants))


def change_selector(random: Random, step: Step) -> Step:
    """Return the same request on a collection, with one selector or none."""
    name = random.choice((b"fieldSelector", b"labelSelector"))
    return replace(step, target=b"/api/v1/pods?" + name + b"=" + random.choice(_SELECTORS))


def _change_method(random: Random, step: Step) -> Step:
    return replace(step, method=random.choice((b"GET", b"HEAD", b"POST", b"DELETE")))


def _change_headers(random: Random, step: Step) -> Step:
    return replace(step, headers=make_headers(random, step.requestor))


def _drop_header(random: Random, step: Step) -> Step:
    index = random.randrange(1, len(step.headers) + 1)
    return replace(step, headers=step.headers[:index] + step.headers[index + 1 :])


def _change_requestor(random: Random, step: Step) -> Step:
    return replace(step, requestor=make_requestor(random))


def _change_one_field_of_the_requestor(random: Random, step: Step) -> Step:
    other = make_requestor(random)
    field = random.choice(("name", "uid", "groups", "extra"))
    return replace(step, requestor=replace(step.requestor, **{field: getattr(other, field)}))


def _change_node(random: Random, step: Step) -> Step:
    """Return the same agent on another node, asking for the node it is on."""
    node = random.choice(NODES)
    extra = dict(step.requestor.extra) | {NODE_NAME_KEY: (node,)}
    requestor = replace(step.requestor, extra=make_extra(extra))
    headers = ((b"Host", b"server"), (b"Impersonate-User", b"system:node:" + node.encode()))
    return replace(step, requestor=requestor, headers=headers)


_CHANGES: tuple[Callable[[Random, Step], Step], ...] = (
    *(_repeat, _repeat, _change_target, _change_target, _respell_target, change_selector),
    *(_change_method, _change_headers, _change_headers, _drop_header, _change_requestor),
    *(_change_one_field_of_the_requestor, _change_one_field_of_the_requestor, _change_node),
)
