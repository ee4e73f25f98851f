"""The traces that come with the lab, by name, with their licences and sources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler_lab.data import FOLDER

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["TRACES", "Entry"]


@attrs.frozen
class Entry:
    """A trace of the catalog: folder and file of its data, terms and source in one line each."""

    folder: str
    file: str
    licence: str
    origin: str

    @property
    def path(self) -> Path:
        """Return the path of the data."""
        return FOLDER / self.folder / self.file

    @property
    def notice(self) -> str:
        """Return the notice that must stay with the data."""
        return (FOLDER / self.folder / "README.md").read_text(encoding="utf-8")


_OPENB_TERMS: Final = "for study or research, with a citation of the paper; no licence file"
_OPENB: Final = "Alibaba Cluster Trace Program, cluster-trace-gpu-v2023; Weng et al., USENIX ATC 2023"


def _openb(variant: str) -> Entry:
    return Entry("openb", f"openb_pod_list_{variant}.csv.gz", _OPENB_TERMS, _OPENB)


TRACES: Final[Mapping[str, Entry]] = {
    "philly": Entry(
        "philly", "philly_jobs.csv.gz", "CC BY 4.0", "Microsoft Philly; Jeon et al., USENIX ATC 2019; rows from Muri"
    ),
    "kalos": Entry("kalos", "kalos_llm_jobs.csv.gz", "CC BY 4.0", "AcmeTrace, cluster Kalos; Hu et al., NSDI 2024"),
    "alibaba-2017": Entry(
        "alibaba-2017",
        "alibaba2017_batch.csv.gz",
        "for study or research; the cleaned table is MIT",
        "Alibaba Cluster Trace v2017, batch_task; rows from CloudSimPy",
    ),
    "openb": _openb("default"),
    "openb-cpu050": _openb("cpu050"),
    "openb-gpushare100": _openb("gpushare100"),
    "openb-gpuspec33": _openb("gpuspec33"),
    "openb-multigpu50": _openb("multigpu50"),
}
"""The traces by the name that `--trace` and `Trace.read` take."""
