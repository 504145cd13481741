"""Sources of client credentials: a kubeconfig, or the pod's service account.

kubernetes-asyncio reads both once, and runs exec plugins. This module decides when to read again.
Everything here blocks on files or programs, so it runs in threads.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, cast

import yaml
from cryptography import x509
from kubernetes_asyncio import config
from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.config import incluster_config
from kubernetes_asyncio.config.kube_config import KubeConfigLoader

_CHILD_EXIT_SECONDS = 5.0


def run_in_own_loop(start: Callable[[], Coroutine[Any, Any, None]], seconds: float) -> None:
    """Run the coroutine of `start` in a new event loop; for use in a thread.

    After `seconds` it is cancelled with TimeoutError, and its child processes are killed.
    """
    with asyncio.Runner(loop_factory=_ChildKillingLoop) as runner:
        runner.run(asyncio.wait_for(start(), seconds))


class _ChildKillingLoop(asyncio.SelectorEventLoop):
    """An event loop that kills its child processes when it is closed."""

    def __init__(self) -> None:
        super().__init__()
        self._children: list[asyncio.SubprocessTransport] = []

    async def subprocess_exec(self, *program: Any, **options: Any) -> Any:
        """Start a child process, and register it."""
        transport, protocol = await super().subprocess_exec(*program, **options)
        self._children.append(transport)
        return transport, protocol

    def close(self) -> None:
        """Kill the running child processes, and wait for their exit."""
        if not self.is_closed():
            self.run_until_complete(self._kill_children())
        super().close()

    async def _kill_children(self) -> None:
        for child in self._children:
            child.close()
        async with asyncio.timeout(_CHILD_EXIT_SECONDS):
            while any(child.get_returncode() is None for child in self._children):  # noqa: ASYNC110 - a transport has no event for it
                await asyncio.sleep(0.01)
        await asyncio.sleep(0)  # their pipes close in the next loop iteration


# A plugin is run again this long before its credential expires. This allows some failed runs.
_RENEW_BEFORE = timedelta(minutes=1)
_PLUGIN_SECONDS = 15.0
# The fields of a user section that require a program or an identity provider.
_PLUGIN_FIELDS = frozenset(("exec", "auth-provider"))


@dataclass(frozen=True, slots=True)
class LoadedKubeconfig:
    """A loaded configuration, and how long it may be used without reading it again."""

    configuration: Configuration
    document: bytes = b""
    """The kubeconfig's bytes."""
    uses_exec_plugin: bool = False
    expires: datetime | None = None


class KubeconfigSource:
    """Reads a credential on every call, but runs plugins only when necessary."""

    def __init__(self, kubeconfig: Path | None, now: Callable[[], datetime]) -> None:
        self._kubeconfig = kubeconfig
        self._now = now

    def __str__(self) -> str:
        return f"kubeconfig {self._kubeconfig}" if self._kubeconfig else "the pod's service account"

    async def read(self, last: LoadedKubeconfig | None = None) -> LoadedKubeconfig:
        """Return the current configuration.

        A plugin's result `last` is returned again as long as it is valid. Raises OSError,
        ValueError or the library's ConfigException if the source cannot be read.
        """
        if self._kubeconfig is None:
            return await asyncio.to_thread(_read_pod)
        document = await asyncio.to_thread(self._kubeconfig.read_bytes)
        if last is not None and last.document == document and self._is_valid(last):
            return last
        return await _read_kubeconfig(self._kubeconfig, document)

    def _is_valid(self, last: LoadedKubeconfig) -> bool:
        # Only a plugin's result is valid until it expires; files are simply read again. Without an
        # expiry it is valid until the API server rejects it, as for kubectl.
        if not last.uses_exec_plugin:
            return False
        return last.expires is None or self._now() < last.expires - _RENEW_BEFORE


def uses_exec_plugin(kubeconfig: Path) -> bool:
    """Return whether a program has to be run for this credential.

    Raises OSError or ValueError if the file cannot be read or parsed. Blocks on a file.
    """
    try:
        return not _PLUGIN_FIELDS.isdisjoint(_user(_mapping(kubeconfig.read_bytes())))
    except (AttributeError, KeyError, StopIteration, TypeError) as error:
        raise ValueError("it is not a well-formed kubeconfig") from error


def pod_namespace() -> str:
    """Return the namespace of this pod; OSError outside of a pod. Blocks on a file."""
    token_file = Path(incluster_config.SERVICE_TOKEN_FILENAME)
    return token_file.with_name("namespace").read_text(encoding="utf-8").strip()


def _read_pod() -> LoadedKubeconfig:
    configuration = Configuration()
    load = cast(
        "Callable[..., None]", config.load_incluster_config
    )  # the library is only partly typed
    load(client_configuration=configuration, try_refresh_token=False)
    return LoadedKubeconfig(configuration)


async def _read_kubeconfig(kubeconfig: Path, document: bytes) -> LoadedKubeconfig:
    content = await asyncio.to_thread(_mapping, document)
    configuration = Configuration()
    try:
        # Load the bytes that were read, because the file may change at any time.
        loader = KubeConfigLoader(content, config_base_path=str(kubeconfig.parent.absolute()))
        load = partial(loader.load_and_set, configuration)
        await asyncio.to_thread(run_in_own_loop, load, _PLUGIN_SECONDS)
        uses_exec_plugin = not _PLUGIN_FIELDS.isdisjoint(_user(content))
    except (AssertionError, AttributeError, KeyError, StopIteration, TypeError) as error:
        # What the library raises for a list where it expects a mapping, and similar.
        raise ValueError("it is not a well-formed kubeconfig") from error
    except config.ConfigException as error:
        if "invalid args list" in str(error):
            # The library's message would contain the args, which may include secrets.
            raise ValueError("the args of its plugin are not a list") from None
        raise
    except TimeoutError as error:
        raise ValueError(f"its plugin took longer than {_PLUGIN_SECONDS:.0f} s") from error
    if not uses_exec_plugin:
        return LoadedKubeconfig(configuration, document)
    expires = await asyncio.to_thread(_expiry, loader, configuration)
    return LoadedKubeconfig(configuration, document, uses_exec_plugin=True, expires=expires)


def _mapping(document: bytes) -> Mapping[str, Any]:
    # The library fails without a useful message for other documents.
    try:
        content = yaml.safe_load(document)
    except yaml.YAMLError as error:
        raise ValueError("it is not YAML") from error
    if not isinstance(content, dict):
        raise ValueError("it is not a mapping")  # noqa: TRY004 - a wrong value, not a wrong call
    return content


def _user(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the user section of the current context, which the library has found before."""
    current = content["current-context"]
    context = next(entry["context"] for entry in content["contexts"] if entry["name"] == current)
    named = context.get("user")
    users: list[Mapping[str, Any]] = [
        entry["user"] or {} for entry in content.get("users") or [] if entry["name"] == named
    ]
    return users[0] if users else {}


def _expiry(loader: object, configuration: Configuration) -> datetime | None:
    """Return the expiry of a plugin's token, or else of its certificate."""
    expiry = getattr(loader, "exec_plugin_expiry", None)
    if isinstance(expiry, datetime):
        return expiry if expiry.tzinfo else expiry.replace(tzinfo=UTC)
    if configuration.api_key or not configuration.cert_file:
        return None
    certificate = x509.load_pem_x509_certificate(Path(configuration.cert_file).read_bytes())
    return certificate.not_valid_after_utc
