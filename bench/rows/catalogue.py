"""All rows, in the order they are run."""

from bench.row import Row
from bench.rows import connections, decision_memory, decisions, requests, watches

ROWS: tuple[Row, ...] = (
    *requests.ROWS,
    *connections.ROWS,
    *watches.ROWS,
    *decision_memory.ROWS,
    *decisions.ROWS,
)
