"""What nobody caught, told by the rules of our log."""

import json
import subprocess
import sys

import pytest

PROGRAM = """
import asyncio, threading
from proxy.telemetry.uncaught import install_uncaught_handlers
from proxy.telemetry.logs import configure_logs

def fail(secret):
    raise ValueError(secret)

async def forget(secret):
    fail(secret)

async def main():
    {statement}
    await asyncio.sleep(0.05)

configure_logs(style="json", level="debug")
with asyncio.Runner() as runner:
    install_uncaught_handlers(runner.get_loop())
    runner.run(main())
"""


@pytest.mark.parametrize(
    ("statement", "event", "code"),
    [
        ("fail('can' + 'ary')", "uncaught exception in main thread", 1),
        (
            "threading.Thread(target=fail, args=('can' + 'ary',)).start()",
            "uncaught exception in thread",
            0,
        ),
        (
            "type('F', (), {'__del__': lambda _: fail('can' + 'ary')})()",
            "uncaught exception in destructor",
            0,
        ),
        (
            "asyncio.get_running_loop().call_soon(fail, 'can' + 'ary')",
            "uncaught exception in event loop",
            0,
        ),
        ("asyncio.ensure_future(forget('can' + 'ary'))", "uncaught exception in event loop", 0),
    ],
)
def test_it_is_one_line_without_the_words_of_others(statement: str, event: str, code: int) -> None:
    program = PROGRAM.format(statement=statement)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )

    (line,) = done.stderr.splitlines()
    told = json.loads(line)
    assert (done.returncode, told["level"], told["message"]) == (code, "error", event)
    assert told["exception"].endswith("builtins.ValueError")
    assert "canary" not in done.stderr
