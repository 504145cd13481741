"""The hop's certificate: of its own making, and kept only where it is told to be."""

import stat
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from OpenSSL import SSL

from proxy.pki.authority import DAY, CertificateAuthority, Validity
from proxy.serving.certificates import CertificateError
from proxy.sidecar.certificate import LOOPBACK_NAMES, load_or_create_certificate, server_context


def test_it_is_for_this_machine_and_outlives_any_pod() -> None:
    own = load_or_create_certificate(LOOPBACK_NAMES, None)

    certificate = x509.load_pem_x509_certificate(own.pair.certificate_pem)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {str(name.value) for name in names} == {"127.0.0.1", "::1", "localhost"}
    lasts = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    assert lasts > timedelta(days=3000)


def test_each_start_has_a_ca_of_its_own_unless_it_is_kept() -> None:
    first, second = (load_or_create_certificate(LOOPBACK_NAMES, None) for _ in range(2))

    assert first.ca_pem != second.ca_pem


def test_what_is_kept_survives_a_restart(tmp_path: Path) -> None:
    first, second = (load_or_create_certificate(LOOPBACK_NAMES, tmp_path) for _ in range(2))

    assert first == second
    assert stat.S_IMODE((tmp_path / "serving.key").stat().st_mode) == 0o600
    # Nothing but the one key it vouches for: the authority's own is gone.
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "ca.crt",
        "serving.crt",
        "serving.key",
    ]


def _another_name(directory: Path) -> None:
    load_or_create_certificate(("127.0.0.1",), directory)


def _nearly_over(directory: Path) -> None:
    authority = CertificateAuthority("old")
    pair = authority.issue_server(*LOOPBACK_NAMES, validity=Validity(duration=30 * DAY))
    pair.write(directory, "serving")
    (directory / "ca.crt").write_bytes(authority.certificate_pem)


def _another_ca(directory: Path) -> None:
    load_or_create_certificate(LOOPBACK_NAMES, directory)
    (directory / "ca.crt").write_bytes(CertificateAuthority("understudy act").certificate_pem)


def _another_key(directory: Path) -> None:
    load_or_create_certificate(LOOPBACK_NAMES, directory)
    other = CertificateAuthority("other").issue_server("a")
    (directory / "serving.key").write_bytes(other.key_pem)


def _half_a_file(directory: Path) -> None:
    load_or_create_certificate(LOOPBACK_NAMES, directory)
    whole = (directory / "serving.crt").read_bytes()
    (directory / "serving.crt").write_bytes(whole[: len(whole) // 2])


@pytest.mark.parametrize(
    "spoil", [_another_name, _nearly_over, _another_ca, _another_key, _half_a_file]
)
def test_what_cannot_be_served_by_is_made_anew(
    tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    spoil(tmp_path)
    before = (tmp_path / "ca.crt").read_bytes()

    own = load_or_create_certificate(LOOPBACK_NAMES, tmp_path)

    assert own.ca_pem != before
    assert load_or_create_certificate(LOOPBACK_NAMES, tmp_path) == own


def test_the_key_is_in_no_file_that_is_left_open() -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))

    context = server_context(load_or_create_certificate(LOOPBACK_NAMES, None).pair)

    assert isinstance(context, SSL.Context)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_directory_that_is_missing_is_told(tmp_path: Path) -> None:
    with pytest.raises(CertificateError, match=r"cannot store a certificate in .*none"):
        load_or_create_certificate(LOOPBACK_NAMES, tmp_path / "none")
