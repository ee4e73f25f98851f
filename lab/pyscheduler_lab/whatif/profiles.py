"""Choose the scheduler configuration for the pods in a dump of a cluster.

The first of these that exists is used:

1. `--profile`: one profile that schedules all pods
2. `--config`: a configuration file
3. the configuration in a file that pyscheduler's `/debug/snapshot` wrote
4. for each `schedulerName` in the dump, the default profile of that scheduler, such as KAI or kube-scheduler
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.cluster.manifest_objects import manifest_objects
from pyscheduler.cluster.object_sources import read_once
from pyscheduler.config.load import load, loads
from pyscheduler.config.profiles import profiles
from pyscheduler.framework.errors import ConfigError
from pyscheduler.runtime.assembly.expansion import enabled_names
from pyscheduler_batch.cli.queue.model import schedulers_of
from pyscheduler_batch.cli.queue.reader import read_inventory
from pyscheduler_batch.gpu_sharing.device_shares import SHARE_ANNOTATIONS
from pyscheduler_batch.settings.batch_file import batch_profile
from pyscheduler_batch.systems import systems_by_dialect
from pyscheduler_lab.simulation.gpu_profile import GPU_SHARING, with_gpu_sharing, without_device_index
from pyscheduler_lab.simulation.policies import POLICIES, policy_named
from pyscheduler_lab.whatif.dump import is_terminal, name_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyscheduler.config.types import Configuration
    from pyscheduler.runtime.assembly.registry import Registry
    from pyscheduler_lab.whatif.dump import Dump, Object

__all__ = ["Chosen", "choose", "unshared_note"]

_KAI: Final = "kai"
#: How many pods a note names.
_MOST_NAMED: Final = 3
_FILES: Final = (".yaml", ".yml", ".json", ".zip")
_OUR_NAME: Final = "pyscheduler"
_THEIR_NAME: Final = "default-scheduler"


@attrs.frozen(kw_only=True)
class Chosen:
    """The configuration, and what it was made from."""

    config: Configuration
    #: The configuration in words.
    source: str
    #: The `schedulerName` that all pods get; "" if the pods keep theirs.
    scheduler_name: str = ""
    #: What was assumed, for the user.
    notes: Sequence[str] = ()


async def choose(
    dump: Dump, *, profile: str | None, config_file: str | None, gates: Mapping[str, bool] | None = None
) -> Chosen:
    """Return the configuration; raise `ConfigError` for an unknown profile and for a file that cannot be used."""
    if profile is not None:
        chosen = _of_profile(profile, config_file, gates, shares_gpus=bool(_sharers(dump)))
    elif file := config_file or dump.config_file:
        chosen = Chosen(config=load(file, gates=gates), source=file)
    else:
        chosen = await _assumed(dump, gates)
    return attrs.evolve(chosen, config=without_device_index(chosen.config))


def unshared_note(chosen: Chosen, dump: Dump, registry: Registry) -> Sequence[str]:
    """Return a note about pods with parts of GPUs whose profiles do not count them; none without such pods."""
    counting = {
        profile.scheduler_name
        for profile in profiles(chosen.config, registry.args_type)
        if GPU_SHARING in enabled_names(profile)
    }
    pods = [name_of(pod) for pod in _sharers(dump) if (chosen.scheduler_name or _scheduler_of(pod)) not in counting]
    if not pods:
        return ()
    names = ", ".join(pods[:_MOST_NAMED]) + (f" and {len(pods) - _MOST_NAMED} more" if len(pods) > _MOST_NAMED else "")
    what = "annotations request parts of GPUs, which no profile of these pods counts"
    return [f"{names}: {what}; give --config FILE whose profile enables the plugin {GPU_SHARING}"]


def _sharers(dump: Dump) -> list[Object]:
    """Return the pods whose annotations request parts of GPUs."""
    return [
        pod
        for pod in dump.of_kind("Pod")
        if not is_terminal(pod)
        and any(name in (pod["metadata"].get("annotations") or {}) for name in SHARE_ANNOTATIONS)
    ]


def _scheduler_of(pod: Object) -> str:
    return (pod.get("spec") or {}).get("schedulerName") or _THEIR_NAME


def _of_profile(
    profile: str, config_file: str | None, gates: Mapping[str, bool] | None, *, shares_gpus: bool
) -> Chosen:
    """Return a configuration with one profile, which all pods use."""
    if profile.endswith(_FILES):
        if config_file is not None:
            raise ConfigError("--profile FILE has its own configuration; remove --config, or name a profile of it")
        config, source = load(profile, gates=gates), f"profile {profile}"
    elif config_file is not None:
        config, source = load(config_file, gates=gates), f"profile {profile} of {config_file}"
        chosen = tuple(each for each in config.profiles if each.scheduler_name == profile)
        if not chosen:
            known = ", ".join(each.scheduler_name for each in config.profiles)
            raise ConfigError(f'no profile "{profile}"; it has {known}', source=config_file)
        config = attrs.evolve(config, profiles=chosen)
    else:
        presets = {system.preset.name for system in systems_by_dialect().values()}
        if profile in presets:
            config = loads(_text({_OUR_NAME: profile}), gates=gates)
        elif profile in POLICIES:
            config = policy_named(profile, gates=gates).config
        else:
            known = ", ".join(sorted(presets | POLICIES.keys()))
            raise ConfigError(f'--profile: no profile "{profile}"; known are {known}, or give a .yaml file')
        config = with_gpu_sharing(config) if shares_gpus else config
        source = f"profile {profile}"
    config = attrs.evolve(config, profiles=config.profiles[:1])
    return Chosen(config=config, source=source, scheduler_name=config.profiles[0].scheduler_name)


async def _assumed(dump: Dump, gates: Mapping[str, bool] | None) -> Chosen:
    """Return a profile for each `schedulerName` of a pod in the dump."""
    given = {*map(_scheduler_of, dump.of_kind("Pod"))}
    inventory = await read_inventory(read_once(manifest_objects(dump.objects, source=dump.source)))
    # One profile a system, that of most of its jobs: two would divide the same queues.
    presets = {dump.kai_scheduler: _KAI} if dump.kai_scheduler else {}
    for dialect, known in schedulers_of(inventory).items():
        preset = systems_by_dialect()[dialect].preset.name
        name = next((each for each in known if each in given), None)
        if name is not None and preset not in presets.values():
            presets.setdefault(name, preset)
    chosen = {name: presets.get(name, "") for name in sorted(given | {_OUR_NAME})}
    assumed = [
        f"{name}: {f'the preset {preset}' if preset else 'the default profile'}"
        for name, preset in chosen.items()
        if name in given
    ]
    # KAI counts parts of GPUs; the others do not.
    sharing = {name for name in map(_scheduler_of, _sharers(dump)) if presets.get(name) == _KAI}
    config = loads(_text(chosen), gates=gates)
    return Chosen(
        config=with_gpu_sharing(config, sharing) if sharing else config,
        source="assumed profiles",
        notes=[f"no --config: assumed for the schedulerName {'; '.join(assumed)}"] if assumed else [],
    )


def _text(presets: Mapping[str, str]) -> str:
    """Return a configuration with a profile for each name: a preset of `Batch`, or the default profile for ""."""
    profiles = [
        batch_profile(name, {"preset": preset}) if preset else {"schedulerName": name}
        for name, preset in presets.items()
    ]
    return json.dumps(
        {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": profiles}
    )
