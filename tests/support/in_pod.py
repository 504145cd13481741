"""Run `understudy` as in a pod, but for where the service account's files are.

python -m tests.support.in_pod DIRECTORY serve --config=...

In a pod that directory is mounted at a path that the client library knows by heart.
"""

import sys

from kubernetes_asyncio.config import incluster_config

from proxy.cli.main import main

if __name__ == "__main__":
    directory, *arguments = sys.argv[1:]
    incluster_config.SERVICE_TOKEN_FILENAME = f"{directory}/token"
    incluster_config.SERVICE_CERT_FILENAME = f"{directory}/ca.crt"
    sys.exit(main(arguments))
