"""The proxy's code with a delay in every request, to show that the benchmark detects it.

    python -m bench --slowed-by 50      # must print `bar missed` and end with 1

A copy of the sources gets a loop at the start of `Pipeline.handle`, which every request passes
through. If that method is renamed, this fails instead of measuring code without the delay.
"""

import ast
import shutil
from pathlib import Path

_FILE, _CLASS, _METHOD = Path("proxy/pipeline/pipeline.py"), "Pipeline", "handle"
_DELAY = (
    "import time as _time; _until = _time.perf_counter() + {seconds!r}\n"
    "{indent}while _time.perf_counter() < _until: pass\n{indent}"
)


def slowed_code(project: Path, directory: Path, *, microseconds: float) -> Path:
    """Copy the code to an empty directory, with that much CPU added per request; return it."""
    shutil.copytree(
        project / "proxy", directory / "proxy", ignore=shutil.ignore_patterns("__pycache__")
    )
    file = directory / _FILE
    file.write_text(slowed_source(file.read_text(), microseconds=microseconds))
    return directory


def slowed_source(source: str, *, microseconds: float) -> str:
    """Return the pipeline's source with the delay; ValueError if the method is not found."""
    first = _first_statement(source)
    lines = source.splitlines(keepends=True)
    indent = " " * first.col_offset
    delay = _DELAY.format(seconds=microseconds / 1e6, indent=indent)
    line = lines[first.lineno - 1]
    lines[first.lineno - 1] = indent + delay + line[first.col_offset :]
    return "".join(lines)


def _first_statement(source: str) -> ast.stmt:
    """Return the first statement of the method, after its docstring."""
    for found in ast.walk(ast.parse(source)):
        if isinstance(found, ast.ClassDef) and found.name == _CLASS:
            for method in found.body:
                if isinstance(method, ast.FunctionDef) and method.name == _METHOD:
                    return method.body[1 if ast.get_docstring(method) is not None else 0]
    raise ValueError(f"there is no {_CLASS}.{_METHOD} in {_FILE} to slow down")
