"""The hooks of pyscheduler, all of them. pluggy calls them once, at start; none is on the path of a pod.

A distribution implements a hook in the module that its entry point names (`pyscheduler.framework.hookimpl` marks the
function). Hooks are few and coarse, and hand over an object to add to, so that new needs become methods of that object.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyscheduler.framework.hooks import hookspec

if TYPE_CHECKING:
    from pyscheduler.framework.hooks import PluginRegistry

__all__ = ["pyscheduler_register"]


@hookspec
def pyscheduler_register(registry: PluginRegistry) -> None:
    """Add the distribution's plugins to `registry`, by name and as `module:Class`; import nothing heavy."""
