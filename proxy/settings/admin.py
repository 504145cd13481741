"""The section `admin`: the port for operators and their tools."""

from pydantic import model_validator

from proxy.settings.strict import StrictModel
from proxy.settings.values import Address, FilePath


class AdminSettings(StrictModel):
    """The port for operators and their tools."""

    address: Address | None = None
    """Where /livez, /readyz, /healthz and /metrics are served. Absent: nowhere."""

    certificate_file: FilePath | None = None
    """PEM certificate chain of this port, which then speaks TLS only. Absent: plain HTTP."""

    key_file: FilePath | None = None
    """PEM private key of that certificate."""

    metrics_need_token: bool = False
    """On: /metrics is for bearer tokens whose owner may `get` the path /metrics; needs TLS."""

    kep_metric_names: bool = False
    """On: durations also under the names of the KEP's text, which no server ever had."""

    @model_validator(mode="after")
    def _tokens_are_not_sent_in_the_clear(self) -> "AdminSettings":
        if (self.certificate_file is None) != (self.key_file is None):
            raise ValueError("certificateFile and keyFile belong together")
        if self.metrics_need_token and self.certificate_file is None:
            raise ValueError(
                "metricsNeedToken needs certificateFile and keyFile: tokens are secret"
            )
        return self
