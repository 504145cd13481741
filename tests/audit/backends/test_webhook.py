import asyncio
import json
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from proxy.audit.backends.buffer import BackendMode
from proxy.audit.backends.webhook import BatchConfig, WebhookBackend
from proxy.audit.backends.webhook_config import WebhookConfigError, WebhookConfigLoader
from proxy.kubeclient.kubeconfig import KubeconfigSource
from tests.audit.counting import Counts, limits
from tests.support.audit_receiver import AuditReceiver, audit_receiver
from tests.support.certificates import Certificates, new_certificates
from tests.support.event_loops import eventually

QUICK = BatchConfig(
    max_events=10,
    max_wait_seconds=0.05,
    calls_per_second=1000,
    burst=1000,
    initial_backoff_seconds=0.05,
)

Start = Callable[..., Any]


@pytest.fixture(scope="module")
def certificates() -> Certificates:
    return new_certificates()


@pytest.fixture
async def receiver(certificates: Certificates) -> AsyncIterator[AuditReceiver]:
    async with audit_receiver(certificates) as receiver:
        yield receiver


@pytest.fixture
def kubeconfig(receiver: AuditReceiver, certificates: Certificates, tmp_path: Path) -> Path:
    ca_file = certificates.write_server_ca(tmp_path)
    return receiver.write_kubeconfig(tmp_path, ca_file, token="a-token")


@pytest.fixture
def counts() -> Counts:
    return Counts()


@pytest.fixture
async def start(kubeconfig: Path, counts: Counts) -> AsyncIterator[Start]:
    started: list[WebhookBackend] = []

    async def start(batching: BatchConfig = QUICK, *, events: int = 1000) -> WebhookBackend:
        source = KubeconfigSource(kubeconfig, lambda: datetime.now(UTC))
        backend = WebhookBackend(
            WebhookConfigLoader(source), limits(BackendMode.BATCH, events=events), batching, counts
        )
        await backend.start()
        started.append(backend)
        return backend

    yield start
    for backend in started:
        await backend.close(0.1)


def event(number: int) -> bytes:
    return (
        b'{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"%d"}\n'
        % number
    )


def numbers(count: int) -> list[str]:
    return [str(number) for number in range(count)]


async def test_events_come_as_a_native_list_with_our_credential(
    start: Start, receiver: AuditReceiver, counts: Counts
) -> None:
    backend = await start()

    for number in range(25):
        backend.buffer.write(event(number))
    await eventually(lambda: len(receiver.events) == 25)

    assert receiver.documents[0] == {
        "kind": "EventList",
        "apiVersion": "audit.k8s.io/v1",
        "metadata": {},
        "items": [{"level": "Metadata", "auditID": str(number)} for number in range(10)],
    }
    assert [len(document["items"]) for document in receiver.documents] == [10, 10, 5]
    assert receiver.ids() == numbers(25)
    assert receiver.headers[0]["Authorization"] == "Bearer a-token"
    assert receiver.headers[0]["Content-Type"] == "application/json"
    await eventually(lambda: counts.stored == 25)


async def test_a_full_batch_does_not_wait_and_a_small_one_waits_for_others(
    start: Start, receiver: AuditReceiver
) -> None:
    batching = BatchConfig(10, 60.0, 1000, 1000, 0.05)
    backend = await start(batching)

    for number in range(15):
        backend.buffer.write(event(number))
    await eventually(lambda: len(receiver.events) == 10)
    await asyncio.sleep(0.3)

    assert len(receiver.events) == 10
    assert backend.buffer.queued == 5


async def test_what_waits_is_sent_before_it_is_closed(
    start: Start, receiver: AuditReceiver, counts: Counts
) -> None:
    backend = await start(BatchConfig(10, 60.0, 0.001, 1, 60.0))

    for number in range(95):
        backend.buffer.write(event(number))
    await backend.close(10)

    assert receiver.ids() == numbers(95)
    assert (counts.stored, counts.lost) == (95, {})


async def test_a_receiver_that_is_down_costs_only_what_the_buffer_cannot_hold(
    start: Start, receiver: AuditReceiver, counts: Counts
) -> None:
    backend = await start(events=50)
    await receiver.go_down()

    for number in range(70):
        backend.buffer.write(event(number))
        await asyncio.sleep(0)
    await eventually(lambda: counts.failures["send"] >= 2)
    assert backend.buffer.is_failing
    await receiver.come_up()

    await eventually(lambda: len(receiver.events) == 50)
    assert receiver.ids() == numbers(50)
    assert counts.lost == {"buffer-full": 20}
    await eventually(lambda: not backend.buffer.is_failing)


@pytest.mark.parametrize("status", [301, 401, 403, 404, 429, 500, 503])
async def test_any_other_answer_is_tried_again_with_the_same_events(
    start: Start, receiver: AuditReceiver, counts: Counts, status: int
) -> None:
    answers = [status] * 6

    async def answer(events: list[dict[str, Any]]) -> int:
        return answers.pop() if answers else 200

    receiver.answer = answer
    backend = await start(BatchConfig(10, 0.05, 1000, 1000, 0.005))

    for number in range(3):
        backend.buffer.write(event(number))
    await eventually(lambda: receiver.events)

    assert receiver.ids() == numbers(3)
    assert (counts.failures, counts.lost) == ({"send": 6}, {})


async def test_what_is_a_bad_request_for_ever_does_not_hold_up_the_others(
    start: Start, receiver: AuditReceiver, counts: Counts
) -> None:
    async def answer(events: list[dict[str, Any]]) -> int:
        return 400 if any(one["auditID"] == "3" for one in events) else 200

    receiver.answer = answer
    backend = await start(BatchConfig(2, 0.05, 1000, 1000, 0.005))

    for number in range(6):
        backend.buffer.write(event(number))
    await eventually(lambda: len(receiver.events) == 4)

    assert receiver.ids() == ["0", "1", "4", "5"]
    assert (counts.lost, counts.failures) == ({"refused": 2}, {"send": 5})


async def test_a_call_that_is_too_large_is_made_in_parts(
    start: Start, receiver: AuditReceiver, counts: Counts
) -> None:
    async def answer(events: list[dict[str, Any]]) -> int:
        return 413 if len(events) > 2 else 200

    receiver.answer = answer
    backend = await start()

    for number in range(10):
        backend.buffer.write(event(number))
    await eventually(lambda: counts.stored == 10)

    assert receiver.ids() == numbers(10)


async def test_big_events_go_in_calls_of_bearable_size(
    start: Start, receiver: AuditReceiver, counts: Counts
) -> None:
    backend = await start()
    line = json.dumps({"kind": "Event", "auditID": "big", "requestObject": "x" * 900_000})

    backend.buffer._limits = limits(size=100_000_000)
    for _ in range(7):
        backend.buffer.write(line.encode() + b"\n")
    await eventually(lambda: counts.stored == 7)

    assert [len(document["items"]) for document in receiver.documents] == [2, 2, 2, 1]


async def test_a_receiver_that_never_answers_does_not_keep_us_from_ending(
    start: Start, receiver: AuditReceiver, counts: Counts
) -> None:
    async def never(events: list[dict[str, Any]]) -> int:
        await asyncio.sleep(3)
        return 200

    receiver.answer = never
    backend = await start()
    for number in range(5):
        backend.buffer.write(event(number))
    await eventually(lambda: receiver.calls)

    async with asyncio.timeout(2):
        await backend.close(0.2)

    assert counts.lost == {"shutdown": 5}


async def test_a_new_credential_is_used_after_a_refusal(
    start: Start, receiver: AuditReceiver, kubeconfig: Path
) -> None:
    backend = await start()
    refusals = [401]

    async def answer(events: list[dict[str, Any]]) -> int:
        return refusals.pop() if refusals else 200

    receiver.answer = answer
    receiver.write_kubeconfig(
        kubeconfig.parent, kubeconfig.parent / "server-ca.crt", token="another"
    )

    backend.buffer.write(event(1))
    await eventually(lambda: receiver.events)

    assert receiver.headers[0]["Authorization"] == "Bearer another"


async def test_a_description_that_broke_leaves_the_old_one_in_force(
    start: Start, receiver: AuditReceiver, kubeconfig: Path, counts: Counts
) -> None:
    backend = await start()
    refusals = [503]

    async def answer(events: list[dict[str, Any]]) -> int:
        return refusals.pop() if refusals else 200

    receiver.answer = answer
    await asyncio.to_thread(kubeconfig.write_text, "nonsense")

    backend.buffer.write(event(1))
    await eventually(lambda: receiver.events)

    assert counts.failures == {"send": 1, "credential": 1}


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"server": "http://audit.example/"}, "loopback"),
        ({"server": "ftp://127.0.0.1/"}, "https"),
        ({"server": "https://me:secret@127.0.0.1/"}, "a credential in the server"),
        ({"insecure-skip-tls-verify": True}, "insecure-skip-tls-verify"),
        ({"proxy-url": "http://127.0.0.1:1"}, "proxy-url"),
        ({"certificate-authority": "missing.crt"}, "missing.crt"),
    ],
    ids=["plain", "odd", "user", "insecure", "proxy", "no CA"],
)
async def test_a_description_that_cannot_be_used_is_told_in_one_line(
    kubeconfig: Path, change: dict[str, object], complaint: str
) -> None:
    document = json.loads(await asyncio.to_thread(kubeconfig.read_text))
    document["clusters"][0]["cluster"] |= change
    await asyncio.to_thread(kubeconfig.write_text, json.dumps(document))
    target = WebhookConfigLoader(KubeconfigSource(kubeconfig, lambda: datetime.now(UTC)))

    with pytest.raises(WebhookConfigError, match=complaint) as error:
        await target.read()

    assert len(error.value.lines) == 1
    assert "webhook.yaml for audit events" in error.value.lines[0]


async def test_a_receiver_with_another_ca_gets_nothing(
    receiver: AuditReceiver, kubeconfig: Path, counts: Counts, tmp_path: Path
) -> None:
    strangers = tmp_path / "strangers"
    await asyncio.to_thread(strangers.mkdir)
    ca_file = new_certificates().write_server_ca(strangers)
    receiver.write_kubeconfig(tmp_path, ca_file)
    source = KubeconfigSource(kubeconfig, lambda: datetime.now(UTC))
    backend = WebhookBackend(WebhookConfigLoader(source), limits(), QUICK, counts)
    await backend.start()

    backend.buffer.write(event(1))
    await eventually(lambda: counts.failures["send"] >= 2)
    await backend.close(0.1)

    assert receiver.calls == 0
    assert counts.lost == {"shutdown": 1}
