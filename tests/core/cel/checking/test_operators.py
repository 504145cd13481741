from proxy.core.cel.checking.operators import OPERATORS


def test_each_row_has_five_columns_and_is_listed_once() -> None:
    rows = [tuple(row.split(" | ")) for row in OPERATORS.splitlines()]

    assert rows
    assert {len(row) for row in rows} == {5}
    assert {row[2] for row in rows} <= {"m", "g"}
    assert len(set(rows)) == len(rows)
