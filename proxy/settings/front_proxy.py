"""Settings: callers that a front proxy speaks for, and those nobody speaks for."""

import re

from pydantic import Field, field_validator, model_validator

from proxy.settings.strict import StrictModel
from proxy.settings.values import FilePath

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class FrontProxySettings(StrictModel):
    """Callers that an authenticating proxy before us speaks for, in headers."""

    ca_file: FilePath | None = None
    """PEM bundle. Who shows a certificate it verifies may speak for anybody. Absent: nobody may,
    and such headers say nothing."""

    from_cluster: bool = False
    """On: CA, names and headers as the cluster publishes them, in place of all others here."""

    allowed_names: tuple[str, ...] = Field(default=(), strict=False)
    """Common names a front proxy's certificate may have. Empty: any, so the CA must sign nothing
    but front proxies."""

    username_headers: tuple[str, ...] = Field(default=("X-Remote-User",), strict=False)
    """The first of these that has a value names the user."""

    uid_headers: tuple[str, ...] = Field(default=("X-Remote-Uid",), strict=False)
    """The first of these that has a value is the uid."""

    group_headers: tuple[str, ...] = Field(default=("X-Remote-Group",), strict=False)
    """Each value of each of these is a group."""

    extra_header_prefixes: tuple[str, ...] = Field(default=("X-Remote-Extra-",), strict=False)
    """What follows one of these in a header's name is the key of an extra."""

    @field_validator("username_headers", "uid_headers", "group_headers", "extra_header_prefixes")
    @classmethod
    def _are_headers(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if _HEADER_NAME.fullmatch(name) is None:
                raise ValueError(f"{name!r} is not the name of a header")
        return names

    @model_validator(mode="after")
    def _has_one_source(self) -> "FrontProxySettings":
        if self.from_cluster and self.model_fields_set - {"from_cluster"}:
            raise ValueError("with fromCluster nothing else can be set: the cluster tells it all")
        if not self.username_headers:
            raise ValueError("usernameHeaders must name a header")
        return self


class AnonymousSettings(StrictModel):
    """Callers without any credential: `system:anonymous`."""

    enabled: bool = False
    """On: who shows no credential is served as `system:anonymous`. A bad credential is a 401."""

    paths: tuple[str, ...] = Field(default=(), strict=False)
    """Only these paths, exactly, such as /livez. Empty: all."""

    @model_validator(mode="after")
    def _paths_need_it(self) -> "AnonymousSettings":
        if self.paths and not self.enabled:
            raise ValueError("paths need enabled: true")
        if not all(path.startswith("/") for path in self.paths):
            raise ValueError("paths must begin with /")
        return self
