"""Create the extenders that a configuration names.

Source: kube-scheduler 1.36, `buildExtenders`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from pyscheduler.framework.errors import ConfigError
from pyscheduler.framework.in_tree_args import NodeResourcesFitArgs
from pyscheduler.scheduler.extenders import Extender, Extenders
from pyscheduler.scheduler.object_texts import ObjectTexts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kube_objects.clock import Clock
    from pyscheduler.api import Node, Pod
    from pyscheduler.config.types import Extender as ExtenderConfig
    from pyscheduler.framework.profile import ProfileSpec
    from pyscheduler.framework.recorder import Recorder
    from pyscheduler.scheduler.ports import Informer, Transport

__all__ = ["make_extenders", "with_ignored_resources"]

_FIT = "NodeResourcesFit"


def make_extenders(
    configs: Sequence[ExtenderConfig],
    transport: Transport,
    *,
    pods: Informer[Pod],
    nodes: Informer[Node],
    clock: Clock,
    recorder: Recorder,
) -> Extenders | None:
    """Return the extenders, the ignorable ones last; None where there are none.

    They are told of `pods` and `nodes` as the API server has them. Nobody is asked anything yet. Raises `ConfigError`
    for all whose TLS settings cannot be used.
    """
    forms = ObjectTexts()
    if configs:
        forms.follow_pods(pods, bound=any(one.preempt_verb and not one.node_cache_capable for one in configs))
    if any((one.filter_verb or one.prioritize_verb) and not one.node_cache_capable for one in configs):
        forms.follow_nodes(nodes)
    problems: list[str] = []
    made: list[Extender] = []
    for index, config in enumerate(configs):
        try:
            connection = transport.extender(config)
        except ConfigError as error:
            problems += [f"{problem} @ $.extenders[{index}].tlsConfig" for problem in error.problems]
            continue
        made.append(Extender(config=config, connection=connection, clock=clock, forms=forms))
    if problems:
        raise ConfigError(*problems)
    made.sort(key=lambda one: one.ignorable)
    return Extenders(members=made, recorder=recorder) if made else None


def with_ignored_resources(specs: Sequence[ProfileSpec], configs: Sequence[ExtenderConfig]) -> Sequence[ProfileSpec]:
    """Return the profiles with NodeResourcesFit looking away from what extenders alone keep account of.

    What they name takes the place of what its args name. Raises `ConfigError` for a profile without such args.
    """
    ignored = tuple(
        resource.name for config in configs for resource in config.managed_resources if resource.ignored_by_scheduler
    )
    return [_ignoring(spec, ignored) for spec in specs] if ignored else specs


def _ignoring(spec: ProfileSpec, ignored: tuple[str, ...]) -> ProfileSpec:
    args = spec.args.get(_FIT)
    if not isinstance(args, NodeResourcesFitArgs):
        where = f"{spec.path}.pluginConfig"
        raise ConfigError(f"can't find NodeResourcesFitArgs in plugin config @ {where}")
    return attrs.evolve(spec, args={**spec.args, _FIT: attrs.evolve(args, ignored_resources=ignored)})
