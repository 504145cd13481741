"""`python -m proxy` is `understudy`."""

from proxy.cli.main import run

run()
