"""`python -m tests.mutation.forgetful_proxy CONFIG`: a proxy that forgets whom it speaks for."""

import sys

from proxy.cli.main import main
from tests.mutation.guards import forward

if __name__ == "__main__":
    forward(lambda _, ours: [line for line in ours if not line[0].startswith(b"Impersonate-")])
    sys.exit(main(["serve", "--config", sys.argv[1]]))
