"""The in-tree plugins give kube-scheduler's recorded answers (see vectors/NOTICE)."""

from __future__ import annotations

import gzip
import importlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import cattrs
import msgspec
import numpy as np
import pytest

from pyscheduler.api import Node, Pod
from pyscheduler.cache.snapshot import Snapshot
from pyscheduler.framework import (
    ActionType,
    ClusterEvent,
    CycleState,
    EnqueueExtensions,
    FilterPlugin,
    Nodes,
    Plugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    QueueingHint,
    ScorePlugin,
    Status,
)
from pyscheduler.plugins.hooks import PLUGINS

Json = dict[str, Any]

VECTORS = Path(__file__).parent / "vectors"
HINTS = "queueing-hints"
FAMILIES = sorted({path.name.partition(".")[0] for path in VECTORS.glob("*.gz")} - {HINTS})
#: In profile order.
NAMES = [
    "SchedulingGates",
    "NodeUnschedulable",
    "NodeName",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "NodeResourcesBalancedAllocation",
    "ImageLocality",
    "NodeDeclaredFeatures",
]
PASSED: Json = {"code": "Success", "plugin": "", "reasons": []}
ACTIONS = {action.label: action for action in ActionType.__members__.values()}
NODE_TAINTS = ClusterEvent("Node", ActionType.UPDATE_NODE_TAINT)


def cases(*families: str) -> list[object]:
    """Return the recorded cases of some families as test parameters."""
    lines = [
        json.loads(line)
        for family in families
        for line in gzip.decompress((VECTORS / f"{family}.jsonl.gz").read_bytes()).splitlines()
    ]
    return [pytest.param(line, id=line["id"]) for line in lines]


def args_of(kind: type[Plugin], config: Json | None) -> object:
    """Structure the args that a recorded profile gives a plugin; None where it gives none."""
    converter = cattrs.Converter(forbid_extra_keys=True)
    converter.register_structure_hook_func(lambda each: issubclass(each, msgspec.Struct), msgspec.convert)
    converter.register_structure_hook_factory(
        attrs.has,
        lambda each: cattrs.gen.make_dict_structure_fn(
            each, converter, **{field.name: cattrs.override(rename=camel(field.name)) for field in attrs.fields(each)}
        ),
    )
    for entry in (config or {}).get("pluginConfig", ()):
        if entry["name"] == kind.name:
            return converter.structure(entry["args"], kind.args_type)
    return None


def camel(name: str) -> str:
    """Spell an attribute as files do."""
    first, *others = name.split("_")
    return first + "".join(each.capitalize() for each in others)


def plugins(config: Json | None, snapshot: Snapshot | None = None) -> list[Plugin]:
    """Make the plugins of a profile."""
    kinds = [getattr(importlib.import_module(f"pyscheduler.plugins.{PLUGINS[name]}"), name) for name in NAMES]
    handle = SimpleNamespace(feature_gates={}, snapshot=snapshot)
    return [kind(args_of(kind, config), handle) for kind in kinds]


def answer(status: Status | None, plugin: Plugin) -> Json:
    """Give a status the form of the recorded ones."""
    if status is None:
        return PASSED
    return {"code": status.code.label, "plugin": plugin.name, "reasons": sorted(status.reasons)}


def pre_filter(profile: Sequence[Plugin], state: CycleState, pod: Pod, nodes: Nodes) -> Json:
    """Run PreFilter in the form of the recorded answers."""
    names: frozenset[str] | None = None
    outcome = {**PASSED, "skipPlugins": []}
    for plugin in profile:
        result = plugin.pre_filter(state, pod, nodes) if isinstance(plugin, PreFilterPlugin) else None
        if isinstance(result, PreFilterResult):
            names = result.node_names if names is None else names & result.node_names
        elif result is not None and result.is_skip:
            outcome["skipPlugins"].append(plugin.name)
        elif result is not None:
            outcome |= answer(result, plugin)
            names = None
            break
    outcome["skipPlugins"].sort()
    return outcome | {"nodeNames": sorted(names) if names is not None else None}


def filtered(profile: Sequence[Plugin], state: CycleState, pod: Pod, nodes: Nodes) -> Json:
    """Return, per node, the first failure in profile order."""
    found = {nodes.name(row): list(PASSED.values()) for row in range(len(nodes))}
    for plugin in reversed(profile):
        statuses = plugin.filter_nodes(state, pod, nodes) if isinstance(plugin, FilterPlugin) else None
        for row in range(len(nodes) if statuses is not None else 0):
            if (status := statuses.status(row)) is not None:
                found[nodes.name(row)] = list(answer(status, plugin).values())
    return found


def scored(profile: Sequence[Plugin], state: CycleState, pod: Pod, nodes: Nodes) -> Json:
    """Return, per plugin and node, the raw and the normalised score."""
    found = {}
    for plugin in profile:
        if not isinstance(plugin, ScorePlugin):
            continue
        status = plugin.pre_score(state, pod, nodes) if isinstance(plugin, PreScorePlugin) else None
        if status is not None:
            assert status.is_skip
            continue
        raw = plugin.score_nodes(state, pod, nodes)
        assert raw.dtype == np.int64
        normalized = raw.copy()
        if hasattr(plugin, "normalize_scores"):
            plugin.normalize_scores(state, pod, normalized)
        pairs = zip(raw.tolist(), normalized.tolist(), strict=True)
        found[plugin.name] = {nodes.name(row): list(pair) for row, pair in enumerate(pairs)}
    return found


def named(nodes: Nodes, names: Sequence[str]) -> Nodes:
    """Return the view of the nodes of those names, in the order of the nodes."""
    return nodes.take(np.array([row for row in range(len(nodes)) if nodes.name(row) in names], dtype=np.int64))


@pytest.mark.parametrize("case", cases(*FAMILIES))
def test_a_pod_is_filtered_and_scored_as_recorded(case: Json, snapshot_of: Callable[..., Snapshot]) -> None:
    """Codes, plugins, reasons, skips, narrowed nodes and all scores are the recorded ones."""
    expected, pod, state = case["expected"], msgspec.convert(case["pod"], Pod), CycleState()
    snapshot = snapshot_of(msgspec.convert(case["nodes"], list[Node]), msgspec.convert(case["pods"], list[Pod]))
    profile = plugins(case["config"], snapshot)
    if "preEnqueue" in expected:
        gates = next(each for each in profile if isinstance(each, PreEnqueuePlugin))
        assert answer(gates.pre_enqueue(pod), gates) == expected["preEnqueue"]
    if "preFilter" not in expected:
        return
    outcome = pre_filter(profile, state, pod, snapshot.nodes)
    assert outcome == expected["preFilter"]
    if outcome["code"] != "Success":
        return
    narrowed = outcome["nodeNames"]
    nodes = snapshot.nodes if narrowed is None else named(snapshot.nodes, narrowed)
    statuses = filtered([each for each in profile if each.name not in outcome["skipPlugins"]], state, pod, nodes)
    assert statuses == expected["filter"]
    feasible = [name for name, status in statuses.items() if status[0] == "Success"]
    if feasible:
        assert scored(profile, state, pod, named(nodes, feasible)) == expected["scores"]


@pytest.mark.parametrize("case", cases(HINTS))
def test_a_change_wakes_pods_as_recorded(case: Json) -> None:
    """Of each cluster event, every plugin that registered it says whether it may help, as recorded."""
    kind = {"Node": Node, "Pod": Pod}[case["event"]["resource"]]
    old, new = (msgspec.convert(case["event"][which], kind | None) for which in ("oldObj", "newObj"))
    pod = msgspec.convert(case["pod"], Pod)
    asked = [each for each in plugins(None) if isinstance(each, EnqueueExtensions)]
    for event in case["expected"]:
        incoming = ClusterEvent(event["resource"], ACTIONS[event["actionType"]])
        answers = {plugin.name: hint(plugin, incoming, pod, old, new) for plugin in asked}
        assert {name: answer for name, answer in answers.items() if answer} == event["hints"]


def hint(plugin: EnqueueExtensions, incoming: ClusterEvent, pod: Pod, old: object, new: object) -> str | None:
    """Ask a plugin the way the queue does; None where it registered nothing that covers the event."""
    registrations = list(plugin.events_to_register())
    answers = [
        QueueingHint.QUEUE if each.queueing_hint is None else each.queueing_hint(pod, old, new)
        for each in registrations
        if each.event.matches(incoming)
    ]
    # Whoever waits for new nodes hears of their taints too, and is not asked: a node may be tainted when it comes.
    waits_for_nodes = any(each.event.matches(ClusterEvent("Node", ActionType.ADD)) for each in registrations)
    if incoming == NODE_TAINTS and waits_for_nodes and not answers:
        answers = [QueueingHint.QUEUE]
    if not answers:
        return None
    return "Queue" if QueueingHint.QUEUE in answers else "Skip"
