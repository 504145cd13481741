"""Every row, in the order they are played."""

from bench.row import Row
from bench.rows import decision_memory, decisions, requests

ROWS: tuple[Row, ...] = (*requests.ROWS, *decision_memory.ROWS, *decisions.ROWS)
