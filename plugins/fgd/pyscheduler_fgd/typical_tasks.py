"""Typical tasks: the most frequent kinds of pods of a cluster, with the number of pods of each kind.

A kind is a request for CPU and GPUs, and the GPU models that the pod may run on.

Source: Weng et al., USENIX ATC 2023, section 4.1.
"""

from __future__ import annotations

import csv
import gzip
import zlib
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.framework import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["MOST_GPUS", "WHOLE", "TypicalTask", "read_tasks", "typical"]

#: A whole GPU, in thousandths.
WHOLE: Final = 1000
#: The largest number of GPUs of one task.
MOST_GPUS: Final = 64
_COLUMNS: Final = ("cpu_milli", "num_gpu", "gpu_milli")


@attrs.frozen(kw_only=True)
class TypicalTask:
    """A kind of tasks: the request of one of them, and how many there are.

    `gpu_milli`: thousandths of each of `gpus` GPUs; a task of several GPUs has whole ones. `models`: the GPU models
    that it may run on, any if empty.
    """

    cpu_milli: int = attrs.field(default=0, validator=attrs.validators.ge(0))
    gpus: int = attrs.field(default=0, validator=[attrs.validators.ge(0), attrs.validators.le(MOST_GPUS)])
    gpu_milli: int = attrs.field(default=WHOLE, validator=[attrs.validators.ge(0), attrs.validators.le(WHOLE)])
    models: tuple[str, ...] = ()
    count: int = attrs.field(default=1, validator=[attrs.validators.ge(1), attrs.validators.le(1 << 31)])

    def __attrs_post_init__(self) -> None:
        if self.gpus > 1 and self.gpu_milli != WHOLE:
            raise ValueError(f"gpuMilli: a task of {self.gpus} GPUs has whole GPUs, 1000 thousandths of each")


def typical(tasks: Iterable[TypicalTask], coverage: float) -> Sequence[TypicalTask]:
    """Return the most frequent kinds that together cover at least this part of all tasks, the most frequent first.

    Of equally frequent kinds, the larger request comes first: by CPU, then thousandths of a GPU, then GPUs.
    """
    counts: Counter[TypicalTask] = Counter()
    for task in tasks:
        kind = attrs.evolve(task, count=1)
        if not task.gpus:
            kind = TypicalTask(cpu_milli=task.cpu_milli, gpu_milli=0)  # neither thousandths nor models matter
        counts[kind] += task.count
    ranked = sorted(
        counts.items(), key=lambda item: (item[1], item[0].cpu_milli, item[0].gpu_milli, item[0].gpus), reverse=True
    )
    needed, covered = coverage * counts.total(), 0
    found = []
    for kind, count in ranked:
        if covered >= needed:
            break
        covered += count
        found.append(attrs.evolve(kind, count=count))
    return found


def read_tasks(path: str) -> Sequence[TypicalTask]:
    """Read tasks from a CSV file, which may be compressed by gzip; raise `ConfigError` that names file and line.

    Columns: `cpu_milli`, `num_gpu`, `gpu_milli`, and optionally `gpu_spec` (models joined by `|`) and `count`.
    """
    file = Path(path)
    try:
        raw = file.read_bytes()
        text = (gzip.decompress(raw) if file.suffix == ".gz" else raw).decode("utf-8")
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise ConfigError(f"typical tasks {path} cannot be read: {why}") from error
    reader = csv.DictReader(text.splitlines())
    missing = [name for name in _COLUMNS if name not in (reader.fieldnames or ())]
    if missing:
        raise ConfigError(f"{path} has no typical tasks: the first line lacks {', '.join(missing)}")
    return [_task(path, reader.line_num, row) for row in reader]


def _task(path: str, line: int, row: Mapping[str, str]) -> TypicalTask:
    cpu, gpus, milli = (_number(path, line, name, row[name]) for name in _COLUMNS)
    models = {model for model in (row.get("gpu_spec") or "").split("|") if model}
    count = _number(path, line, "count", row.get("count") or "1")
    try:
        return TypicalTask(cpu_milli=cpu, gpus=gpus, gpu_milli=milli, models=tuple(sorted(models)), count=count)
    except ValueError as error:
        raise ConfigError(f"{path}, line {line}: {error}") from error


def _number(path: str, line: int, column: str, text: str | None) -> int:
    if not text or not text.isascii() or not text.isdigit():
        raise ConfigError(f"{path}, line {line}: {column} is {text or ''!r}, not a whole number")
    return int(text)
