"""Which answers may be ended for their clients' sake, and which never."""

import pytest

from proxy.core.requestinfo.request_info import is_resumable_stream, parse_request_info

POD = b"/api/v1/namespaces/a/pods/b"


@pytest.mark.parametrize(
    "target",
    [
        b"/api/v1/pods?watch=1",
        b"/apis/apps/v1/namespaces/a/deployments?watch=true&resourceVersion=5",
        b"/api/v1/watch/namespaces/a/pods",
        POD + b"/log?follow=true",
        POD + b"/log?container=c&follow=1&follow=false",
    ],
)
def test_watches_and_followed_logs_have_no_end_of_their_own(target: bytes) -> None:
    assert is_resumable_stream(parse_request_info(b"GET", target), target)


@pytest.mark.parametrize(
    "target",
    [
        b"/api/v1/pods",
        b"/api/v1/pods?watch=0",
        POD,
        POD + b"/log",
        POD + b"/log?follow=false",
        POD + b"/log?follow=false&follow=true",
        POD + b"/log?follow=",
        POD + b"/exec?follow=true",
        POD + b"/proxy/log?follow=true",
        b"/api/v1/proxy/namespaces/a/pods/b?watch=1&follow=true",
        b"/apis/example.com/v1/namespaces/a/machines/b/log?follow=true",
        b"/debug/pprof/profile",
    ],
)
def test_everything_else_has_one_and_is_never_passed_off_as_complete(target: bytes) -> None:
    assert not is_resumable_stream(parse_request_info(b"GET", target), target)
