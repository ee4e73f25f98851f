"""Make random histories: steps that create a small cluster, add pods made from templates, and cause other events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

from pyscheduler.api import Node, Pod
from pyscheduler.testing.checks.steps import Step
from pyscheduler.testing.checks.subject import FAILS_ONCE

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

__all__ = ["Draft", "DrawHook", "draw_history"]

ZONE: Final = "topology.kubernetes.io/zone"
_TAINT: Final = {"key": "dedicated", "value": "team", "effect": "NoSchedule"}


@attrs.define
class Draft:
    """The elements of a random history; a `draw` hook adds those that a plugin needs.

    The dicts give the values among which a node or pod draws one, or none. `pods` and `nodes` are keywords of
    `pod_manifest` and `node_manifest`, of which each pod and node takes one at random. `setup` are the first steps, and
    `events` are mixed into the history, in their order.
    """

    node_labels: dict[str, list[str]] = attrs.Factory(dict)
    node_annotations: dict[str, list[str]] = attrs.Factory(dict)
    pod_labels: dict[str, list[str]] = attrs.Factory(dict)
    pod_annotations: dict[str, list[str]] = attrs.Factory(dict)
    nodes: list[dict[str, Any]] = attrs.Factory(list)
    pods: list[dict[str, Any]] = attrs.Factory(list)
    setup: list[Step] = attrs.Factory(list)
    events: list[Step] = attrs.Factory(list)


DrawHook: TypeAlias = "Callable[[random.Random, Draft], None]"


@attrs.define
class _Drawing:
    """One history that is being drawn."""

    rng: random.Random
    draft: Draft
    nodes: list[str] = attrs.Factory(list)
    pods: list[str] = attrs.Factory(list)
    count: int = 0

    def add_node(self) -> Step:
        rng, draft = self.rng, self.draft
        keywords: dict[str, Any] = {
            "allocatable": {"cpu": rng.choice(("1", "2", "4")), "pods": rng.choice(("2", "4", "110"))},
            "labels": {ZONE: rng.choice(("a", "b")), **_some(rng, {"disk": ["ssd", "hdd"], **draft.node_labels})},
        }
        if rng.random() < 0.2:
            keywords["taints"] = [_TAINT]
        if rng.random() < 0.1:
            keywords["unschedulable"] = True
        if annotations := _some(rng, draft.node_annotations):
            keywords["annotations"] = annotations
        if draft.nodes:
            keywords = _merged(keywords, rng.choice(draft.nodes))
        name = f"n{len(self.nodes)}"
        self.nodes.append(name)
        return Step("add_node", name, **keywords)

    def template(self) -> dict[str, Any]:
        rng = self.rng
        keywords: dict[str, Any] = {"requests": {"cpu": rng.choice(("200m", "500m", "1", "2"))}}
        labels = {"app": rng.choice(("web", "db"))}
        keywords["labels"] = labels
        kind = rng.randrange(10)
        if kind == 0:
            keywords["node_selector"] = {"disk": "ssd"}
        elif kind == 1:
            keywords["affinity"] = {"podAntiAffinity": _affinity(labels, "kubernetes.io/hostname")}
        elif kind == 2:
            keywords["affinity"] = {"podAffinity": _affinity({"app": "web"}, ZONE)}
        elif kind == 3:
            constraint = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
            keywords["spec"] = {"topologySpreadConstraints": [{**constraint, "labelSelector": {"matchLabels": labels}}]}
        elif kind == 4:
            keywords["host_ports"] = [8080]
        if rng.random() < 0.3:
            keywords["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
        if rng.random() < 0.2:
            keywords["priority"] = 10
        return _merged(keywords, rng.choice(self.draft.pods)) if self.draft.pods else keywords

    def add_pod(self, template: dict[str, Any]) -> Step:
        rng = self.rng
        keywords = _merged(template, {})
        if labels := _some(rng, {"tier": ["a", "b"], **self.draft.pod_labels}):
            keywords["labels"] = {**keywords.get("labels", {}), **labels}
        annotations = _some(rng, self.draft.pod_annotations)
        if rng.random() < 0.15:
            annotations[FAILS_ONCE] = "true"
        if annotations:
            keywords["annotations"] = {**keywords.get("annotations", {}), **annotations}
        if rng.random() < 0.08:
            keywords["scheduling_gates"] = ["check"]
        name = f"p{self.count}"
        self.count += 1
        self.pods.append(name)
        return Step("add_pod", name, **keywords)

    def change(self) -> Step:
        """Return an event other than a new pod."""
        rng = self.rng
        node = rng.choice(self.nodes)
        pod = rng.choice(self.pods) if self.pods else "p0"
        return rng.choice(
            (
                lambda: Step("delete_pod", pod),
                lambda: Step("delete_pod", pod),
                lambda: Step("delete_node", node),
                self.add_node,
                lambda: Step("patch", Node, node, self._metadata(rng.choice(("labels", "annotations")))),
                lambda: Step("patch", Node, node, {"status": {"allocatable": {"cpu": "4"}}}, status=True),
                lambda: Step("patch", Node, node, {"spec": {"unschedulable": rng.random() < 0.5}}),
                lambda: Step("patch", Node, node, {"spec": {"taints": rng.choice(([], [_TAINT]))}}),
                lambda: Step("patch", Pod, pod, {"metadata": {"labels": self._label(self.draft.pod_labels, "tier")}}),
                lambda: Step("patch", Pod, pod, {"spec": {"schedulingGates": []}}),
                lambda: Step("advance", rng.choice((1, 30))),
            )
        )()

    def _metadata(self, field: str) -> dict[str, Any]:
        draft = self.draft
        values = draft.node_labels if field == "labels" else draft.node_annotations
        return {"metadata": {field: self._label(values, "disk")}}

    def _label(self, values: dict[str, list[str]], default: str) -> dict[str, str | None]:
        """Return a change of one label or annotation."""
        key = self.rng.choice(sorted({default, *values}))
        return {key: self.rng.choice([*values.get(key, ["ssd", "hdd"]), None])}


def draw_history(rng: random.Random, hook: DrawHook | None = None, *, scheduler_name: str = "") -> list[Step]:
    """Return a random history of about fifteen steps; `hook` adds to its draft.

    `scheduler_name` is that of the pods, if it is not the builder's.
    """
    draft = Draft()
    if hook is not None:
        hook(rng, draft)
    drawing = _Drawing(rng, draft)
    steps = [*draft.setup, *(drawing.add_node() for _ in range(rng.randint(2, 4)))]
    templates = [drawing.template() for _ in range(rng.randint(1, 3))]
    if scheduler_name:
        templates = [{"scheduler_name": scheduler_name, **template} for template in templates]
    steps += [drawing.add_pod(rng.choice(templates)) for _ in range(rng.randint(2, 4))]
    events = [
        drawing.add_pod(rng.choice(templates)) if rng.random() < 0.4 else drawing.change()
        for _ in range(rng.randint(5, 10))
    ]
    places = sorted(rng.randint(0, len(events)) for _ in draft.events)
    for offset, (place, step) in enumerate(zip(places, draft.events, strict=True)):
        events.insert(place + offset, step)
    return steps + events


def _some(rng: random.Random, values: dict[str, list[str]]) -> dict[str, str]:
    """Return a value for most of the keys."""
    return {key: rng.choice(each) for key, each in values.items() if rng.random() < 0.7}


def _merged(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Return both, merged where both have a dict; the second wins."""
    merged = dict(first)
    for key, value in second.items():
        known = merged.get(key)
        merged[key] = {**known, **value} if isinstance(known, dict) and isinstance(value, dict) else value
    return merged


def _affinity(labels: dict[str, str], key: str) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": key}
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
