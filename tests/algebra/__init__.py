"""The decision algebra against kube-apiserver's own code: `python -m tests.algebra`."""
