"""Entry point of `python -m proxy`, equal to the command `understudy`."""

from proxy.cli.main import run

run()
