"""Rows of `explain` for a user who may not read nodes: the requests, the group and the affinity of a pod."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kube_objects.resources import pod_requests
from pyscheduler.api import QuantityError, host_ports
from pyscheduler.cli.disruption import first_few
from pyscheduler.cli.explanation import INFO, Step
from pyscheduler.cli.podgroup.summary import member_of, most_informative
from pyscheduler.framework.node_matching import node_selector_text
from pyscheduler.framework.pod_info import PodInfo
from pyscheduler.plugins.node_resources.nearest_miss import amount
from pyscheduler.podgroup import DIALECTS, resolve

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyscheduler.api import Pod

__all__ = ["pod_facts"]


def pod_facts(pod: Pod, pods: Sequence[Pod], claims: Iterable[str]) -> list[Step]:
    """Return the step with what a pod asks for, and one for its group and each affinity.

    `pods` are those of its namespace, the pod among them; none if they may not be listed. `claims` describe its claims.
    """
    others = [each for each in pods if each.uid != pod.uid and not each.is_terminal]
    steps = [Step("asks", INFO, "", "; ".join([*_asked(pod), *claims]) or "no amounts, labels, ports or claims")]
    if not pods:
        return steps
    found = resolve(pod, DIALECTS)
    if found is not None:
        members = [each for each in others if (other := resolve(each, DIALECTS)) is not None and other[0] == found[0]]
        steps.append(_others(f"other pods of group {found[0].name}", members))
        best, mine = most_informative(member_of(each) for each in (pod, *members)), member_of(pod).message
        if best is not None and mine and best.message != mine:
            steps.append(Step("group", INFO, "", f"the scheduler says of {best.pod.key}: {best.message}"))
    info = PodInfo.of(pod)
    for word, terms in (
        ("affinity", info.required_affinity_terms),
        ("anti-affinity", info.required_anti_affinity_terms),
    ):
        for term in terms:
            text = f"pods of its {word} per {term.topology_key} ({term.selector or 'any labels'})"
            steps.append(_others(text, [each for each in others if term.matches(each, {})]))
    return steps


def _others(text: str, pods: Iterable[Pod]) -> Step:
    places = [f"{each.key} {f'on {each.node_name}' if each.node_name else 'without a node'}" for each in pods]
    return Step("pods", INFO, "", f"{text} in this namespace: {first_few(places) or 'none'}")


def _asked(pod: Pod) -> Iterator[str]:
    spec = pod.spec
    try:
        requests = pod_requests(pod)
    except QuantityError as error:
        requests = {}
        yield str(error)
    if any(requests.values()):
        yield ", ".join(f"{amount(name, value)} {name}" for name, value in requests.items() if value)
    ports = [f"{port}/{protocol}" for _, protocol, port in host_ports(pod)]
    if ports:
        yield f"host ports {', '.join(ports)}"
    if spec.node_selector:
        yield "nodes with " + ", ".join(f"{key}={value}" for key, value in spec.node_selector.items())
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    if required is not None:
        yield f"nodes with {node_selector_text(required.node_selector_terms)}"
    for each in spec.topology_spread_constraints:
        yield f"maxSkew {each.max_skew} per {each.topology_key}"
    if spec.priority_class_name or spec.priority:
        yield f"priority {pod.priority} {spec.priority_class_name}".rstrip()
