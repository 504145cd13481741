"""Every row, in the order they are played."""

from bench.row import Row
from bench.rows import requests

ROWS: tuple[Row, ...] = (*requests.ROWS,)
