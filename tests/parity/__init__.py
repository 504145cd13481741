"""The parity run: the same requests to a native server and to the proxy, and what came of them.

    python -m tests.parity --cases 10000 --seed 1

`__main__` reads the arguments, `campaign` runs them, `generator` and `tour` invent the requests,
`arena` starts the servers, `play` sends, `comparison` judges, `coverage` says what was seen.
"""
