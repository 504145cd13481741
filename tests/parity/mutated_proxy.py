"""`python -m tests.parity.mutated_proxy MISTAKE CONFIG`: the proxy with one mistake in it."""

import sys

from proxy.cli.main import main
from tests.parity.mutants import MUTANTS

if __name__ == "__main__":
    mistake, config = sys.argv[1:]
    MUTANTS[mistake]()
    sys.exit(main(["serve", "--config", config]))
