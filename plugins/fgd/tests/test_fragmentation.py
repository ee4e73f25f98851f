"""Typical tasks, and the fragmentation of nodes against the sum of the paper."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from pyscheduler_fgd.fragmentation import Fragmentation, Free
from pyscheduler_fgd.typical_tasks import TypicalTask, read_tasks, typical

kinds = st.builds(
    lambda cpu, gpus, milli, models, count: TypicalTask(
        cpu_milli=cpu, gpus=gpus, gpu_milli=milli if gpus == 1 else 1000, models=tuple(sorted(models)), count=count
    ),
    st.integers(0, 5),
    st.integers(0, 3),
    st.sampled_from([100, 250, 500, 810, 1000]),
    st.sets(st.sampled_from(["A", "B"])),
    st.integers(1, 9),
)


@given(
    tasks=st.lists(kinds, max_size=8),
    cpu=st.integers(0, 6),
    parts=st.lists(st.integers(0, 999), max_size=3),
    whole=st.integers(0, 4),
    model=st.sampled_from([None, "A", "B", "C"]),
)
def test_fragmentation_is_the_sum_of_the_paper(
    tasks: list[TypicalTask], cpu: int, parts: list[int], whole: int, model: str | None
) -> None:
    """All free GPUs count for a task that cannot run, the smaller parts for one that can."""
    devices = [*parts, *[1000] * whole]
    expected = 0.0
    for task in tasks:
        enough = sum(device >= task.gpu_milli for device in devices) >= task.gpus
        fits = task.gpus and task.cpu_milli <= cpu and enough and (not task.models or model in task.models)
        expected += task.count * sum(device for device in devices if not fits or device < task.gpu_milli)
    table = Fragmentation(tasks)
    free = Free(
        table.model_ids([model]),
        np.array([cpu]),
        np.array(parts, dtype=np.int64).reshape(-1, 1),
        np.array([whole]),
    )
    assert table.amounts(free)[0] == pytest.approx(expected / table.weight if tasks else sum(devices))


def test_the_most_frequent_kinds_are_typical() -> None:
    """They are taken until they cover the part; of equally frequent ones, the larger request comes first."""
    tasks = [
        *[TypicalTask(cpu_milli=1, gpus=1)] * 6,
        *[TypicalTask(cpu_milli=2, gpus=1)] * 2,
        *[TypicalTask(cpu_milli=3, gpu_milli=500, models=("A",))] * 2,
        TypicalTask(cpu_milli=4),
    ]
    found = typical(tasks, 0.8)
    assert [(kind.cpu_milli, kind.count) for kind in found] == [(1, 6), (3, 2), (2, 2)]
    assert (found[1].gpu_milli, found[1].models) == (0, ()), "without a GPU, neither matters"
    assert typical([], 0.95) == []


def test_a_compressed_task_list_of_the_trace_is_read(tmp_path: Path) -> None:
    """Other columns are ignored; models are separated by a bar, and repeated ones count once."""
    file = tmp_path / "tasks.csv.gz"
    text = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\na,4000,1,1,320,T4|P100|T4\nb,1000,1,0,0,\n"
    file.write_bytes(gzip.compress(text.encode()))
    assert read_tasks(str(file)) == [
        TypicalTask(cpu_milli=4000, gpus=1, gpu_milli=320, models=("P100", "T4")),
        TypicalTask(cpu_milli=1000, gpus=0, gpu_milli=0),
    ]
