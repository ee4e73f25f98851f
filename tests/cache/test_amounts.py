"""The table of amounts: one column per node, one line per resource."""

from __future__ import annotations

import pytest

from pyscheduler.cache.amounts import AmountTable, to_int64


def line(table: AmountTable, name: str) -> list[int]:
    """Return a line by the name of its resource."""
    return table.view[table.scalars[name]].tolist()


def test_amounts_of_zero_need_no_line() -> None:
    """Sums keep the names of resources that nobody uses any more; the table does not."""
    table = AmountTable(1, 2)
    table.write(0, (1,), {"gone": 0})
    assert table.scalars == {}


def test_lines_are_made_as_they_are_needed() -> None:
    """Any number of extended resources fits, and what was there before stays."""
    table = AmountTable(1, 2)
    names = [f"example.com/{number}" for number in range(20)]
    table.write(0, (9,), dict.fromkeys(names, 3))
    table.write(1, (8,), {names[19]: 5})
    assert table.view[0].tolist() == [9, 8]
    assert [line(table, name) for name in names] == [[3, 0]] * 19 + [[3, 5]]


def test_lines_in_use_keep_their_amounts_when_others_are_given_up() -> None:
    """A line may move when room is made; it is found by name."""
    table = AmountTable(1, 2)
    table.write(0, (1,), dict.fromkeys(["a", "b", "c", "d"], 7))
    table.write(0, (1,), {"d": 7})
    table.write(1, (1,), {"e": 5, "b": 3})
    assert {name: line(table, name) for name in table.scalars} == {"b": [0, 3], "d": [7, 0], "e": [0, 5]}


def test_names_that_come_and_go_leave_nothing_behind() -> None:
    """A line that has become all zero is used for another name."""
    table = AmountTable(1, 2)
    for number in range(1000):
        table.write(0, (1,), {f"example.com/{number}": 1})
    assert table.view.shape[0] < 16
    assert line(table, "example.com/999") == [1, 0]


def test_nobody_writes_into_what_is_handed_out() -> None:
    """The view is read-only, and so is every slice of it."""
    table = AmountTable(1, 2)
    with pytest.raises(ValueError, match="read-only"):
        table.view[0, :1][0] = 1


@pytest.mark.parametrize(
    ("amount", "kept"),
    [
        pytest.param(2**63 - 1, 2**63 - 1, id="largest"),
        pytest.param(2**63, -(2**63), id="one more"),
        pytest.param(2**64 + 5, 5, id="round"),
        pytest.param(-(2**63) - 1, 2**63 - 1, id="below the smallest"),
    ],
)
def test_sums_beyond_64_bits_wrap_as_in_go(amount: int, kept: int) -> None:
    """Absurd amounts do not stop the scheduler; they come out as in kube-scheduler."""
    table = AmountTable(2, 1)
    table.write(0, (amount, 1), {"gpu": amount})
    assert to_int64(amount) == kept
    assert (table.view[:2, 0].tolist(), line(table, "gpu")) == ([kept, 1], [kept])
