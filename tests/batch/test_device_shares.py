"""Shares of devices: what annotations request, and which devices of a node have room."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from pyscheduler_batch.gpu_sharing.device_shares import DeviceShares, ShareRequest, gpu_memory, share_request


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        pytest.param({}, None, id="nothing"),
        pytest.param({"gpu-fraction": "0.5"}, ShareRequest(1, portion=0.5), id="fraction"),
        pytest.param({"gpu-memory": "4000"}, ShareRequest(1, memory=4000), id="memory"),
        pytest.param(
            {"gpu-fraction": "0.25", "gpu-fraction-num-devices": "3"}, ShareRequest(3, portion=0.25), id="devices"
        ),
    ],
)
def test_annotations_are_read(annotations: dict[str, str], expected: ShareRequest | None) -> None:
    """Fraction, memory and number of devices."""
    assert share_request(annotations, has_whole_gpus=False) == expected


@pytest.mark.parametrize(
    ("annotations", "whole", "text"),
    [
        pytest.param({"gpu-fraction": "0.5"}, True, "both GPU fraction", id="whole GPUs"),
        pytest.param({"gpu-memory": "5"}, True, "both GPU and GPU memory", id="memory and whole GPUs"),
        pytest.param({"gpu-memory": "5", "gpu-fraction": "0.5"}, False, "both GPU and GPU memory", id="both"),
        pytest.param({"gpu-fraction-num-devices": "2"}, False, "without specifying", id="devices alone"),
        pytest.param({"gpu-fraction": "0.5", "gpu-fraction-num-devices": "0"}, False, "fraction count", id="no device"),
        *(
            pytest.param({"gpu-fraction": text}, False, "smaller than 1.0", id=f"fraction {text}")
            for text in ("1", "0", "-0.5", "nan", "inf", "half", " 0.5", "0_1.5", "", "1e-400", "0.٣")
        ),
        *(
            pytest.param({"gpu-memory": text}, False, "greater than 0", id=f"memory {text}")
            for text in ("0", "-1", "1.5", "4Gi", "", "٣", "9" * 30)
        ),
    ],
)
def test_contradictions_and_wrong_values_are_refused(annotations: dict[str, str], whole: bool, text: str) -> None:
    """The message is that of KAI's admission."""
    with pytest.raises(ValueError, match=text):
        share_request(annotations, has_whole_gpus=whole)


@pytest.mark.parametrize(
    ("label", "expected"),
    [("81920", 81900), ("85899345920", 81900), ("", 100), ("-1", 100), ("many", 100), ("99", 100)],
)
def test_memory_of_gpus_is_read_from_the_label(label: str, expected: int) -> None:
    """In MiB, cut to hundreds; a label in bytes is converted, and fractions are percents without one."""
    assert gpu_memory({"nvidia.com/gpu.memory": label}) == expected


@pytest.mark.parametrize("portion", ["0.001", "1e-320"])
def test_smallest_portions_take_something(portion: str) -> None:
    """A device is shared until the last of its pods is gone, however small their portions are."""
    request = share_request({"gpu-fraction": portion}, has_whole_gpus=False)
    assert request is not None
    node, amount = DeviceShares(100), request.amount(100)
    for _ in range(2):
        node.take(["gpu"], amount)
    assert node.give_back(["gpu"], amount) == []
    assert node.give_back(["gpu"], amount) == ["gpu"]


def test_memory_becomes_a_portion() -> None:
    """More than a GPU is possible only without a rest, and counts as one."""
    request = ShareRequest(1, memory=4001)
    assert request.amount(16000) == 4001
    assert request.gpus(16000) == pytest.approx(4001 / 16000, abs=1e-6)
    assert request.is_possible(16000)
    assert not request.is_possible(4000)
    whole = ShareRequest(2, memory=4000)
    assert whole.is_possible(100)
    assert whole.gpus(100) == 2


def test_parts_of_a_gpu_add_up() -> None:
    """The shares that fit into the memory of a device count as one device at most, whatever their order."""
    assert sum(ShareRequest(1, memory=3541).gpus(81500) for _ in range(23)) <= 1
    parts = [ShareRequest(1, portion=portion).gpus(100) for portion in (0.2, 0.3, 0.4)]
    assert 1 - sum(parts) + parts[1] + parts[2] >= ShareRequest(1, portion=0.8).gpus(100)


def test_smallest_parts_count() -> None:
    """A pod that shares a GPU never counts as one without GPUs."""
    assert ShareRequest(1, portion=1e-12).gpus(100) > 0


def test_the_fullest_shared_device_comes_first() -> None:
    """A whole device is shared only if no shared one has room; with `spread` it comes first."""
    node = DeviceShares(100, {"a": 30, "b": 60, "c": 90})
    assert node.choose(40, 1, 1, str) == ("b",)
    assert node.choose(40, 3, 1, str) == ("b", "a", "0")
    assert node.choose(40, 4, 1, str) is None
    assert node.choose(40, 2, 1, str, spread=True) == ("a", "0")
    assert node.choose(80, 1, 0, str) is None
    assert node.choose(80, 1, 1, str) == ("0",)


@given(
    capacity=st.integers(1, 8),
    wanted=st.lists(st.tuples(st.integers(1, 8), st.integers(1, 3)), max_size=12),
    whole=st.integers(0, 4),
)
def test_no_device_has_more_than_its_capacity(capacity: int, wanted: list[tuple[int, int]], whole: int) -> None:
    """A pod gets devices if enough have room; no device is shared beyond its capacity, and giving back ends empty."""
    node, names, held = DeviceShares(capacity), iter(range(1000)), []
    for amount, devices in wanted:
        amount = min(amount, capacity)
        free = whole - len(node.used)
        has_room = free + len(node.with_room(amount)) >= devices
        chosen = node.choose(amount, devices, free, lambda _: f"d{next(names)}")
        assert (chosen is not None) == has_room
        if chosen is not None:
            assert len({*chosen}) == devices
            node.take(chosen, amount)
            held.append((chosen, amount))
        assert len(node.used) <= whole
        assert all(0 < used <= capacity for used in node.used.values())
    for chosen, amount in held:
        node.give_back(chosen, amount)
    assert node.used == {}
