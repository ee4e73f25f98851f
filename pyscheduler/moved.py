"""Keep old import names working for one version.

The import of a moved module, class or function by its old name causes a warning.
"""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import ModuleType

__all__ = ["FRAMEWORK_NAMES", "forward", "moved_names"]

#: A longer name wins over a shorter one that it begins with.
_MOVED: Final = {
    "pyscheduler.audit": "pyscheduler_lab.audit",
    "pyscheduler.batch": "pyscheduler_batch",
    "pyscheduler.cel": "kube_cel",
    "pyscheduler.cli.simulate": "pyscheduler_lab.cli.simulate",
    "pyscheduler.cluster.embedded": "kube_testserver",
    "pyscheduler.cluster.embedded.serving.in_process": "pyscheduler.cluster.in_process",
    "pyscheduler.framework.clock": "kube_objects.clock",
    "pyscheduler.podgroup.deadlock": "pyscheduler_coscheduling.deadlock_resolver.deadlocks",
    "pyscheduler.podgroup.deadlock_units": "pyscheduler_coscheduling.deadlock_resolver.units",
    "pyscheduler.podgroup.quota_claims": "pyscheduler_quota.claims",
    "pyscheduler.podgroup.quotas": "pyscheduler_quota.quotas",
    "pyscheduler.podgroup.reservation_controller": "pyscheduler_quota.controller",
    "pyscheduler.podgroup.reservations": "pyscheduler_quota.reservations",
    "pyscheduler.simulation": "pyscheduler_lab.simulation",
    "pyscheduler.simulation.case_file": "pyscheduler.cli.case_file",
    "pyscheduler.simulation.explain_json": "pyscheduler.cli.explain_json",
    "pyscheduler.simulation.openb_trace": "pyscheduler.cli.demo.openb_trace",
    "pyscheduler.simulation.recorded_plugins": "pyscheduler.cli.recorded_plugins",
    "pyscheduler.simulation.virtual_time": "kube_testserver.virtual_time",
    "pyscheduler.simulation.workloads": "kube_testserver.workloads",
    "pyscheduler.testing.clock": "kube_testserver.virtual_time",
}
#: Packages that keep their names, while their modules have moved.
_MODULES_MOVED: Final = {"pyscheduler.api": "kube_objects"}

#: What `pyscheduler` and `pyscheduler.framework` offered although only the scheduler itself uses it.
FRAMEWORK_NAMES: Final = {
    "ENTRY_POINT_GROUP": "pyscheduler.framework.hooks",
    "NO_NODES_AVAILABLE": "pyscheduler.framework.diagnosis",
    "EnabledPlugin": "pyscheduler.framework.profile",
    "NoNodesError": "pyscheduler.framework.diagnosis",
    "NullRecorder": "pyscheduler.framework.recorder",
    "PluginSet": "pyscheduler.framework.profile",
    "PreemptionExtender": "pyscheduler.framework.preemption",
    "ProfileSpec": "pyscheduler.framework.profile",
    "Recorder": "pyscheduler.framework.recorder",
    "hookspec": "pyscheduler.framework.hooks",
    "next_generation": "pyscheduler.framework.node_info",
}


def _new_name(name: str) -> str | None:
    """Return where a module is now; None if it has not moved."""
    old = name
    while old:
        if new := _MOVED.get(old) or (_MODULES_MOVED.get(old) if old != name else None):
            return new + name[len(old) :]
        old = old.rpartition(".")[0]
    return None


class _Forwarder:
    """Finds modules by their old names, and loads what has the new name."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return a spec for a module that has moved."""
        del path, target
        new = _new_name(fullname) if fullname.startswith("pyscheduler.") else None
        # The loader has what the import system calls; its type wants more than that.
        return None if new is None else ModuleSpec(fullname, _Loader(new))  # type: ignore[arg-type]  # see above


class _Loader:
    """Gives the module of the new name under the old one, too."""

    def __init__(self, new: str) -> None:
        self._new = new
        self._spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Import the module by its new name."""
        module = import_module(self._new)
        message = f"{spec.name} is {self._new} now; the old name goes with the next version"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Undo what the import system did to a module that has run already."""
        module.__spec__ = self._spec


def forward() -> None:
    """Let the old names be imported, from now on."""
    # First, because Python's own finders would import the modules of a moved package again, under their old names.
    sys.meta_path.insert(0, _Forwarder())


def moved_names(package: str, names: Mapping[str, str]) -> Callable[[str], object]:
    """Return the `__getattr__` of a module: `names` gives, by old name, the module that has it now."""

    def load(name: str) -> object:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        text = f"{package}.{name} is removed in 0.4; use {names[name]}.{name}"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        return getattr(import_module(names[name]), name)

    return load
