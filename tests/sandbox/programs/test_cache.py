from pathlib import Path

import pytest

from proxy.sandbox.programs.cache import cache_directory


def test_the_cache_is_under_the_users_cache_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    assert cache_directory() == tmp_path / "understudy" / "1.37.1"


@pytest.mark.parametrize("value", [None, "", "relative/path"], ids=["unset", "empty", "relative"])
def test_without_a_usable_setting_the_cache_is_in_the_home_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, value: str | None
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    if value is not None:
        monkeypatch.setenv("XDG_CACHE_HOME", value)

    assert cache_directory() == tmp_path / ".cache" / "understudy" / "1.37.1"
