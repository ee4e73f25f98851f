"""NodeStatuses: what a columnar filter answers, and which arrays it takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyscheduler.framework import Code, NodeStatuses, Status

REFUSED = Status.unschedulable("no")

WRONG_TYPES = [
    pytest.param(np.array([0, 1, 2], dtype=np.int8), "not int8", id="int8"),
    pytest.param(np.array([0, 1, 2]), "not int64", id="int64"),
    pytest.param(np.array([0, 1, 2], dtype=np.uint8), "not uint8", id="uint8"),
    pytest.param(np.array([0.0, 1.0, 0.0]), "not float64", id="float"),
    pytest.param(np.array([True, False, None], dtype=object), "not object", id="object"),
    pytest.param([True, False, True], "not list", id="list"),
]
WRONG_SHAPES = [
    pytest.param(np.array([[True, False, True]]), id="two-dimensional"),
    pytest.param(np.array(True), id="no-dimension"),
]


@pytest.mark.parametrize(("mask", "found"), WRONG_TYPES)
def test_fail_refuses_a_mask_of_another_type(mask: Any, found: str) -> None:
    """`fail` raises TypeError for a mask that is not bool, says what to write instead, and marks no node."""
    statuses = NodeStatuses(3)
    with pytest.raises(TypeError, match=rf"{found}; write .*np\.bool_") as raised:
        statuses.fail(mask, REFUSED)
    assert "one bool for each of 3 nodes" in str(raised.value)
    assert statuses.passed().all()
    assert statuses.table == [Status(Code.SUCCESS)]


@pytest.mark.parametrize(("mask", "found"), WRONG_TYPES)
def test_failing_refuses_a_mask_of_another_type(mask: Any, found: str) -> None:
    """`failing` raises TypeError for a mask that is not bool, and says what to write instead."""
    with pytest.raises(TypeError, match=rf"{found}; write .*np\.bool_"):
        NodeStatuses.failing(mask, REFUSED)


@pytest.mark.parametrize("length", [0, 1, 2, 4])
def test_fail_refuses_a_mask_of_another_length(length: int) -> None:
    """`fail` raises ValueError for a mask with another number of rows; a single bool is not spread over all nodes."""
    statuses = NodeStatuses(3)
    with pytest.raises(ValueError, match=rf"3 nodes, not of shape \({length},\)"):
        statuses.fail(np.ones(length, dtype=np.bool_), REFUSED)
    assert statuses.passed().all()


@pytest.mark.parametrize("mask", WRONG_SHAPES)
def test_masks_of_another_shape_are_refused(mask: Any) -> None:
    """`fail` and `failing` raise ValueError for a mask that has not exactly one dimension."""
    with pytest.raises(ValueError, match="one bool for each of 3 nodes"):
        NodeStatuses(3).fail(mask, REFUSED)
    with pytest.raises(ValueError, match="one bool per node"):
        NodeStatuses.failing(mask, REFUSED)


def test_bool_masks_mark_their_rows() -> None:
    """A bool mask gives its status to the rows where it is true, and to no others."""
    mask = np.array([False, True, True])
    statuses = NodeStatuses.failing(mask, REFUSED)
    assert statuses is not None
    assert [statuses.status(row) for row in range(3)] == [None, REFUSED, REFUSED]
    assert NodeStatuses.failing(np.zeros(3, dtype=np.bool_), REFUSED) is None


@pytest.mark.parametrize(
    "size", [pytest.param("3", id="text"), pytest.param(None, id="None"), pytest.param(object(), id="view")]
)
def test_the_constructor_takes_a_number_of_nodes(size: Any) -> None:
    """The nodes themselves in place of their number are named in the message."""
    what = type(size).__name__
    with pytest.raises(TypeError, match=rf"NodeStatuses takes the number of nodes, not {what}; write len\(nodes\)"):
        NodeStatuses(size)
