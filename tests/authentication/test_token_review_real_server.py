"""What counts as a yes of the API server about a token."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes_asyncio.client import ApiClient, Configuration

from proxy.authentication.token_review import KubernetesTokenReviewer
from proxy.core.errors import Unauthorized, UpstreamUnavailable
from proxy.core.userinfo import UserInfo

USER = {
    "username": "system:serviceaccount:a:b",
    "uid": "u-1",
    "groups": ["system:serviceaccounts", "system:authenticated"],
    "extra": {"authentication.kubernetes.io/node-name": ["n1"], "a.example/key": ["1", "2"]},
}
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ReviewServer:
    """Answers every review the same way."""

    def __init__(self) -> None:
        self.answer: Answer = self.status({"authenticated": True, "user": USER})
        self.specs: list[dict[str, object]] = []
        self.url = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        assert request.path == "/apis/authentication.k8s.io/v1/tokenreviews"
        self.specs.append((await request.json())["spec"])
        return await self.answer(request)

    @staticmethod
    def status(status: object, *, code: int = 201) -> Answer:
        review = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": "token"},
            "status": status,
        }
        return ReviewServer.text(json.dumps(review), code=code)

    @staticmethod
    def text(body: str, *, code: int = 201, content_type: str = "application/json") -> Answer:
        async def answer(_request: web.Request) -> web.StreamResponse:
            return web.Response(text=body, status=code, content_type=content_type)

        return answer


@pytest.fixture
async def server() -> AsyncIterator[ReviewServer]:
    reviews = ReviewServer()
    application = web.Application()
    application.router.add_post("/{path:.*}", reviews.handle)
    async with TestServer(application, host="127.0.0.1") as listening:
        reviews.url = str(listening.make_url("/")).rstrip("/")
        yield reviews


async def review(
    server: ReviewServer, *, audiences: tuple[str, ...] = (), token: str = "token"
) -> UserInfo | None:
    async with ApiClient(Configuration(host=server.url)) as client:
        return await KubernetesTokenReviewer(client, audiences=audiences).review(token)


async def test_a_yes_carries_the_whole_identity(server: ReviewServer) -> None:
    assert await review(server) == UserInfo(
        name="system:serviceaccount:a:b",
        uid="u-1",
        groups=("system:serviceaccounts", "system:authenticated"),
        extra=(
            ("a.example/key", ("1", "2")),
            ("authentication.kubernetes.io/node-name", ("n1",)),
        ),
    )
    assert server.specs == [{"token": "token"}]


async def test_who_is_known_by_name_alone_is_authenticated_all_the_same(
    server: ReviewServer,
) -> None:
    server.answer = server.status({"authenticated": True, "user": {"username": "alice"}})

    assert await review(server) == UserInfo("alice", groups=("system:authenticated",))


UNKNOWN = "invalid bearer token"


@pytest.mark.parametrize(
    "status",
    [
        pytest.param({"authenticated": False}, id="no"),
        pytest.param({"authenticated": False, "user": USER}, id="no, with the user filled"),
        pytest.param({"authenticated": False, "error": ""}, id="no, with an empty error"),
        pytest.param({"user": {}, "error": UNKNOWN}, id="as the API server says it"),
        pytest.param({"user": USER, "error": UNKNOWN}, id="so, with the user filled"),
        pytest.param({"authenticated": False, "error": UNKNOWN}, id="so, and a no"),
    ],
)
async def test_a_token_that_is_nobodys_is_a_definite_no(
    server: ReviewServer, status: object
) -> None:
    server.answer = server.status(status)

    assert await review(server) is None


@pytest.mark.parametrize(
    "status",
    [
        pytest.param({}, id="nothing said"),
        pytest.param({"user": USER}, id="only a user"),
        pytest.param({"authenticated": None, "user": USER}, id="null"),
        pytest.param({"authenticated": True}, id="yes without a user"),
        pytest.param({"authenticated": True, "user": None}, id="yes and no user"),
        pytest.param({"authenticated": True, "user": {}}, id="yes with an empty user"),
        pytest.param({"authenticated": True, "user": {"username": ""}}, id="an empty name"),
        pytest.param({"authenticated": True, "user": {"groups": ["a"]}}, id="only groups"),
        pytest.param({"authenticated": True, "user": USER, "error": "odd"}, id="yes and an error"),
        pytest.param({"authenticated": True, "user": USER, "error": UNKNOWN}, id="yes and a no"),
        pytest.param({"authenticated": False, "error": "timeout"}, id="no and an error"),
        pytest.param({"user": {}, "error": f"[{UNKNOWN}, timeout]"}, id="unknown, and trouble"),
        pytest.param({"user": {}, "error": UNKNOWN.upper()}, id="almost what it says"),
        pytest.param({"authenticated": True, "user": "root"}, id="a user that is a text"),
        pytest.param({"authenticated": "true", "user": USER}, id="yes as a text"),
        pytest.param({"authenticated": "false", "user": USER}, id="no as a text"),
        pytest.param({"authenticated": "false", "error": UNKNOWN}, id="no as a text, and unknown"),
        pytest.param({"authenticated": 1, "user": USER}, id="yes as a number"),
        pytest.param({"authenticated": 0, "user": USER}, id="no as a number"),
    ],
)
async def test_anything_but_a_plain_yes_authenticates_nobody(
    server: ReviewServer, status: object
) -> None:
    server.answer = server.status(status)

    with pytest.raises(Unauthorized):
        await review(server)


@pytest.mark.parametrize(
    ("answered", "is_for_us"),
    [
        (["proxy"], True),
        (["other", "proxy"], True),
        (["second"], True),
        (["other"], False),
        (["Proxy"], False),
        ([], False),
        (None, False),
    ],
)
async def test_a_token_must_be_meant_for_one_of_our_audiences(
    server: ReviewServer, answered: list[str] | None, is_for_us: object
) -> None:
    server.answer = server.status({"authenticated": True, "user": USER, "audiences": answered})

    try:
        owner = await review(server, audiences=("proxy", "second"))
    except Unauthorized:
        owner = None

    assert (owner is not None) is is_for_us
    assert server.specs == [{"token": "token", "audiences": ["proxy", "second"]}]


@pytest.mark.parametrize("code", [400, 413, 422])
async def test_a_token_that_cannot_be_reviewed_is_nobodys_and_no_outage(
    server: ReviewServer, code: int
) -> None:
    server.answer = server.status({"authenticated": True, "user": USER}, code=code)

    with pytest.raises(Unauthorized) as refused:
        await review(server, token="x" * 100_000)

    assert refused.value.__cause__ is None


@pytest.mark.parametrize("code", [301, 401, 403, 404, 409, 429, 500, 503, 504])
async def test_an_error_of_the_api_server_is_no_answer(server: ReviewServer, code: int) -> None:
    server.answer = server.status({"authenticated": True, "user": USER}, code=code)

    with pytest.raises(UpstreamUnavailable):
        await review(server)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("", id="empty"),
        pytest.param("null", id="null"),
        pytest.param("[]", id="a list"),
        pytest.param('{"status": "authenticated"}', id="a status that is a text"),
        pytest.param('"status"', id="a text"),
        pytest.param("<html>status</html>", id="a page"),
        pytest.param('{"spec": {"token": "t"}, "status": null}', id="no status"),
        pytest.param('{"spec": {"token": "t"}}', id="the question alone"),
        pytest.param("{}", id="an empty object"),
        pytest.param('{"kind": "Status", "status": "Failure"}', id="a Status"),
    ],
)
async def test_what_is_no_review_is_no_answer(server: ReviewServer, body: str) -> None:
    server.answer = server.text(body)

    with pytest.raises(UpstreamUnavailable):
        await review(server)


@pytest.mark.parametrize(
    "user",
    [
        {"username": 7},
        {"username": ["root"]},
        {"username": "alice", "uid": 7},
        {"username": "alice", "groups": "system:masters"},
        {"username": "alice", "groups": ["a", 7]},
        {"username": "alice", "extra": {"a": "b"}},
        {"username": "alice", "extra": ["a"]},
    ],
    ids=str,
)
async def test_half_an_identity_is_no_answer(server: ReviewServer, user: object) -> None:
    server.answer = server.status({"authenticated": True, "user": user})

    with pytest.raises(UpstreamUnavailable):
        await review(server)


async def test_a_connection_that_breaks_is_no_answer(server: ReviewServer) -> None:
    async def hang_up(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    server.answer = hang_up

    with pytest.raises(UpstreamUnavailable):
        await review(server)


async def test_a_server_that_is_not_there_is_no_answer() -> None:
    server = ReviewServer()
    server.url = "http://127.0.0.1:1"

    with pytest.raises(UpstreamUnavailable):
        await review(server)
