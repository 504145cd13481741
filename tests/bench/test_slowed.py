"""The delay that the benchmark must notice is put where every request comes through."""

from pathlib import Path

import pytest

from bench.slowed import slowed_code, slowed_source

PROJECT = Path(__file__).parents[2]


def test_the_delay_comes_first_and_the_rest_stays() -> None:
    source = (
        'class Pipeline:\n    def handle(self) -> int:\n        """Begin."""\n        return 1\n'
    )

    slowed = slowed_source(source, microseconds=50)

    names: dict[str, type] = {}
    exec(slowed, names)
    assert names["Pipeline"]().handle() == 1
    assert "perf_counter() + 5e-05" in slowed


@pytest.mark.parametrize(
    "source", ["class Other:\n    def handle(self): ...\n", "class Pipeline:\n    x = 1\n"]
)
def test_without_its_place_there_is_no_delay(source: str) -> None:
    with pytest.raises(ValueError, match=r"no Pipeline\.handle"):
        slowed_source(source, microseconds=50)


def test_our_own_code_has_that_place(tmp_path: Path) -> None:
    code = slowed_code(PROJECT, tmp_path, microseconds=50)

    compile((code / "proxy/pipeline/pipeline.py").read_text(), "pipeline.py", "exec")
    assert (code / "proxy/runtime/proxy.py").read_bytes() == (
        PROJECT / "proxy/runtime/proxy.py"
    ).read_bytes()
