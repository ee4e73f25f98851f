"""What a class takes part in."""

from __future__ import annotations

import inspect

import pytest

from pyscheduler.api import Pod, Wire
from pyscheduler.framework import (
    CycleState,
    ExtensionPoint,
    FilterPlugin,
    NodeInfo,
    Nodes,
    NodeStatuses,
    Plugin,
    PreBindPlugin,
    QueueSortPlugin,
    ReservePlugin,
    ScorePlugin,
    Status,
)
from pyscheduler.framework.callables import is_foreign
from pyscheduler.framework.reuse import Reuse
from pyscheduler.runtime.assembly.declaration_checks import rbac_problems
from pyscheduler.runtime.assembly.discovery import discover
from pyscheduler.runtime.extension_points.points import BASES, extension_points_of, is_columnar, missing_methods


class OneNode(FilterPlugin):
    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return None


class AllNodes(FilterPlugin, ScorePlugin):
    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
        return None


class Heir(AllNodes):
    """Inherits from another plugin."""


class Less(QueueSortPlugin):
    def less(self, first: object, second: object) -> bool:
        return False


class Half(ReservePlugin, PreBindPlugin):
    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return None


def test_every_extension_point_has_a_class() -> None:
    """No extension point that a file may name is without an interface."""
    assert set(BASES) == set(ExtensionPoint)


@pytest.mark.parametrize(
    ("plugin", "points"),
    [
        pytest.param(Plugin, (), id="none"),
        pytest.param(OneNode, (ExtensionPoint.FILTER,), id="one"),
        pytest.param(Half, (ExtensionPoint.RESERVE, ExtensionPoint.PRE_BIND), id="in the order of a cycle"),
        pytest.param(Heir, (ExtensionPoint.FILTER, ExtensionPoint.SCORE), id="inherited"),
    ],
)
def test_a_plugin_takes_part_where_it_inherits(plugin: type[Plugin], points: tuple[ExtensionPoint, ...]) -> None:
    """Inheriting an interface is what takes part in its extension point."""
    assert extension_points_of(plugin) == points


@pytest.mark.parametrize(
    ("plugin", "point", "columnar"),
    [
        pytest.param(OneNode, ExtensionPoint.FILTER, False, id="filter"),
        pytest.param(AllNodes, ExtensionPoint.FILTER, True, id="filter_nodes"),
        pytest.param(Heir, ExtensionPoint.FILTER, True, id="inherited filter_nodes"),
        pytest.param(AllNodes, ExtensionPoint.SCORE, False, id="another extension point of the same class"),
    ],
)
def test_overriding_the_columnar_method_makes_a_plugin_columnar(
    plugin: type[Plugin], point: ExtensionPoint, columnar: bool
) -> None:
    """A class counts as columnar exactly where it brings the columnar method."""
    assert is_columnar(plugin, point) is columnar


@pytest.mark.parametrize(
    ("plugin", "point", "missing"),
    [
        pytest.param(AllNodes, ExtensionPoint.FILTER, [], id="one of two forms"),
        pytest.param(AllNodes, ExtensionPoint.SCORE, ["score or score_nodes"], id="neither form"),
        pytest.param(Half, ExtensionPoint.RESERVE, ["unreserve"], id="one of two methods"),
        pytest.param(Half, ExtensionPoint.PRE_BIND, ["pre_bind"], id="a pre-flight is optional"),
        pytest.param(Less, ExtensionPoint.QUEUE_SORT, [], id="less in place of a key"),
    ],
)
def test_methods_that_are_not_defined_are_named(
    plugin: type[Plugin], point: ExtensionPoint, missing: list[str]
) -> None:
    """An interface without its method is noticed before the first pod comes by."""
    assert missing_methods(plugin, point) == missing


def test_plugins_of_this_package_have_what_other_plugins_are_checked_for() -> None:
    """Profiles do not check these classes: methods, the types of fields, `reuse`, and permissions."""
    registry = discover()
    own = [registry.load(name) for name in registry.names() if not is_foreign(registry.load(name))]
    assert len(own) >= 20
    for plugin in own:
        assert not [missing for point in extension_points_of(plugin) for missing in missing_methods(plugin, point)]
        assert not [*rbac_problems(plugin.name, plugin.rbac)]
        assert all(issubclass(each, Wire) for each in (*plugin.pod_fields, *plugin.node_fields))
        assert all(isinstance(each, str) for each in plugin.reuse_annotations)
        assert isinstance(getattr(plugin, "reuse", Reuse.NEVER), Reuse)
        assert inspect.iscoroutinefunction(getattr(plugin, "run", None)) == hasattr(plugin, "run")
