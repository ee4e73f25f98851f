"""Run one simulation of a sweep (a cell), unless the folder of the sweep has the results already.

Results are used again only if they are complete, and if no setting, input or code has changed since.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import attrs
import msgspec

from pyscheduler.framework.errors import ConfigError, os_error_text
from pyscheduler.framework.plugin_failures import error_place
from pyscheduler_lab.results.bundle import read_bundle, sha256_of_input, write_bundle
from pyscheduler_lab.results.columns import cells_of, unfinished_of
from pyscheduler_lab.results.measures import Measures
from pyscheduler_lab.results.provenance import checkout, local_code
from pyscheduler_lab.results.runs import play, policy_of
from pyscheduler_lab.results.settings import FILES
from pyscheduler_lab.results.verification import altered_files, other_code
from pyscheduler_lab.sweep.plan import workload_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyscheduler_lab.results.bundle import Bundle
    from pyscheduler_lab.results.columns import Cells
    from pyscheduler_lab.results.settings import RunSettings
    from pyscheduler_lab.results.tables import Tables
    from pyscheduler_lab.simulation.replay_report import PluginErrors
    from pyscheduler_lab.sweep.plan import Cell, Plan

__all__ = ["Outcome", "open_folder", "run_cell"]

#: A copy of the file of the sweep, by which its folder is known.
_FILE: Final = ".sweep.yaml"
#: Bundles that are being written.
_PARTIAL: Final = ".partial"
_NO_PATHS: Final = dict.fromkeys(FILES, "")


@attrs.frozen(kw_only=True)
class Outcome:
    """The columns of results of a cell, or its error in one line."""

    cell: Cell
    cells: Cells | None = None
    #: Number of jobs that did not finish.
    unfinished: int = 0
    plugin_errors: Sequence[PluginErrors] = ()
    error: str = ""
    #: The bundle was there before.
    is_old: bool = False


def open_folder(path: str, plan: Plan) -> Path:
    """Return the folder of a sweep: a new or empty one, or one of an earlier run; raise `ConfigError` for another."""
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()) and not (folder / _FILE).exists():
            text = "the folder is not empty, and does not belong to a sweep; name another one"
            raise ConfigError(text, source=f"--out: {path}")
        (folder / _FILE).write_bytes(plan.text)
        shutil.rmtree(folder / _PARTIAL, ignore_errors=True)
    except OSError as error:
        raise ConfigError(os_error_text(error), source=f"--out: {path}") from error
    return folder.resolve()


def run_cell(cell: Cell, *, folder: Path, command: Sequence[str]) -> Outcome:
    """Return the results of a cell: those of its bundle, or of a run that writes the bundle. Never raises."""
    local_code()  # It is cached: the bundle records the files as they are before the plugins are loaded.
    try:
        bundle = _bundle_of(cell.settings, folder / cell.name)
        if bundle is not None:
            return _outcome(cell, bundle.tables, bundle.plugin_errors, is_old=True)
        done = play(workload_of(cell.settings), policy_of(cell.settings), cell.settings)
        part = folder / _PARTIAL / uuid4().hex
        write_bundle(part, done, command)
        target = folder / cell.name
        shutil.rmtree(target, ignore_errors=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        # Only now: a sweep that is killed before leaves no incomplete results under the name of the cell.
        part.rename(target)
        return _outcome(cell, done.tables, done.report.plugin_errors, is_old=False)
    except ConfigError as error:
        return Outcome(cell=cell, error="; ".join(error.problems))
    except Exception as error:  # noqa: BLE001 - the other cells go on
        return Outcome(cell=cell, error=f"{type(error).__name__}: {error} ({error_place(error)})")


def _outcome(cell: Cell, tables: Tables, plugin_errors: Sequence[PluginErrors], *, is_old: bool) -> Outcome:
    return Outcome(
        cell=cell,
        cells=cells_of(Measures.of(tables)),
        unfinished=sum(each.jobs for each in unfinished_of(tables)),
        plugin_errors=plugin_errors,
        is_old=is_old,
    )


def _bundle_of(settings: RunSettings, folder: Path) -> Bundle | None:
    """Return the bundle in a folder if it is what these settings, inputs and the code give; otherwise None."""
    try:
        bundle = read_bundle(folder)
    except ConfigError:
        return None
    run = bundle.run
    # Where the files lie does not matter.
    is_same = msgspec.structs.replace(run.settings, **_NO_PATHS) == msgspec.structs.replace(settings, **_NO_PATHS)
    inputs = {name: sha256_of_input(name, value) for name in FILES if (value := getattr(settings, name))}
    recorded = {name: each.sha256 for name, each in run.inputs.items()}
    is_current = is_same and inputs == recorded and run.checkout == checkout()
    return bundle if is_current and not any(other_code(bundle)) and not any(altered_files(bundle)) else None
