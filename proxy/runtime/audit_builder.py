"""Builders for the audit backends. A backend whose settings have not changed is reused."""

import logging
from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path

from proxy.audit.backends.buffer import BackendMode, BufferLimits
from proxy.audit.backends.log import LogBackend
from proxy.audit.backends.log_file import STANDARD_OUTPUT, RotatingLogFile
from proxy.audit.backends.log_rotation import LogRetention, RetentionPolicy
from proxy.audit.backends.union import AuditBackends
from proxy.audit.backends.webhook import BatchConfig, WebhookBackend
from proxy.audit.backends.webhook_config import WebhookConfigLoader
from proxy.core.audit.limits import EventLimits
from proxy.kubeclient.kubeconfig import KubeconfigSource
from proxy.settings.audit import AuditLogSettings, AuditSettings, AuditWebhookSettings
from proxy.telemetry.logs import fields
from proxy.telemetry.metrics.audit import AuditMetrics

log = logging.getLogger(__name__)

_MEGABYTE = 1 << 20
_NO_BACKENDS = AuditSettings()


def build_audit_backends(
    settings: AuditSettings,
    metrics: AuditMetrics,
    now: Callable[[], datetime],
    *,
    current: tuple[AuditSettings, AuditBackends] | None = None,
) -> AuditBackends:
    """Return the audit backends; those that are not in `current` have to be started.

    A backend whose file or receiver stays the same is reused, with its queued events.
    """
    old, backends = current or (_NO_BACKENDS, None)
    file, receiver = (backends.log, backends.webhook) if backends else (None, None)
    if file is None or not _is_same_file(old.log, settings.log):
        file = _build_audit_log(settings.log, metrics)
    if receiver is None or not _is_same_receiver(old.webhook, settings.webhook):
        receiver = _build_audit_webhook(settings.webhook, metrics, now)
    return AuditBackends(file, receiver, when_refused=metrics.request_rejected)


def apply_buffer_limits(settings: AuditSettings, backends: AuditBackends) -> None:
    """Apply the buffer limits of these settings to every backend."""
    if backends.log is not None:
        backends.log.buffer.set_limits(_limits(settings.log))
    if backends.webhook is not None:
        backends.webhook.buffer.set_limits(_limits(settings.webhook))


def event_limits(settings: AuditSettings) -> EventLimits:
    """Return the maximum length of values in events."""
    limits = settings.limits
    return EventLimits(
        uri_bytes=limits.uri_bytes,
        user_bytes=limits.user_bytes,
        message_bytes=limits.message_bytes,
        unauthenticated_bytes=limits.unauthenticated_bytes,
    )


def _is_same_file(old: AuditLogSettings, new: AuditLogSettings) -> bool:
    if old.path == new.path == STANDARD_OUTPUT:
        # Standard output has no other settings, and two writers would interleave their lines.
        return True
    limits = {"mode": new.mode, "buffer_size": new.buffer_size, "buffer_bytes": new.buffer_bytes}
    return old.model_copy(update=limits) == new


def _is_same_receiver(old: AuditWebhookSettings, new: AuditWebhookSettings) -> bool:
    limits = {"mode": new.mode, "buffer_size": new.buffer_size, "buffer_bytes": new.buffer_bytes}
    return old.model_copy(update=limits) == new


def _limits(settings: AuditLogSettings | AuditWebhookSettings) -> BufferLimits:
    return BufferLimits(BackendMode(settings.mode), settings.buffer_size, settings.buffer_bytes)


def _build_audit_log(settings: AuditLogSettings, metrics: AuditMetrics) -> LogBackend | None:
    if settings.path is None:
        return None
    open_file = partial(_open_audit_log, settings, settings.path, metrics)
    return LogBackend(open_file, _limits(settings), metrics)


def _open_audit_log(
    settings: AuditLogSettings, path: Path, metrics: AuditMetrics
) -> RotatingLogFile:
    def failed(reason: str, error: OSError) -> None:
        metrics.backend_failed("log", reason)
        text = error.strerror or str(error)
        log.warning("audit log not rotated", extra=fields(step=reason, reason=text))

    retention = RetentionPolicy(settings.max_age_days, settings.max_backups, settings.compress)
    old_files = LogRetention(path, retention, when_failed=partial(failed, "tidy"))
    file = RotatingLogFile(
        path,
        max_bytes=settings.max_size_megabytes * _MEGABYTE,
        when_rotated=old_files.apply,
        when_rotation_fails=partial(failed, "rotate"),
    )
    if path != STANDARD_OUTPUT:
        old_files.apply()  # finish the work of a previous process
    return file


def _build_audit_webhook(
    settings: AuditWebhookSettings, metrics: AuditMetrics, now: Callable[[], datetime]
) -> WebhookBackend | None:
    if settings.kubeconfig is None:
        return None
    return WebhookBackend(
        WebhookConfigLoader(KubeconfigSource(settings.kubeconfig, now)),
        _limits(settings),
        BatchConfig(
            max_events=settings.batch_max_size,
            max_wait_seconds=settings.batch_max_wait_seconds,
            calls_per_second=settings.throttle_qps,
            burst=settings.throttle_burst,
            initial_backoff_seconds=settings.initial_backoff_seconds,
        ),
        metrics,
    )
