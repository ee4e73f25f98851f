"""Read the configuration file of a batch system, such as KAI, as the configuration of a scheduler with one profile.

The content of the file becomes the args of the plugin `Batch`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final

import attrs

from pyscheduler.config.problems import Problem, path_text, shown
from pyscheduler.config.types import PluginConfig, Plugins
from pyscheduler.config.yaml_text import read
from pyscheduler.framework.errors import ConfigError
from pyscheduler_batch.preset import Shard
from pyscheduler_batch.settings.binder import with_binder
from pyscheduler_batch.settings.configuration import batch_args, preset_of
from pyscheduler_batch.systems import presets, systems

__all__ = ["FORM", "BatchForm", "batch_profile"]

_CONFIG_MAP: Final = "ConfigMap"
_BATCH: Final = "Batch"
_PLAIN: Final = ("actions", "tiers")
#: Where messages of the plugin and of its profile say that something is.
_PLACES: Final = re.compile(r"\$(?:\.profiles\[0\])?\.pluginConfig(?:\[Batch\]\.args(\.shard)?)?\b")


def batch_profile(scheduler_name: str, args: Mapping[str, object]) -> dict[str, object]:
    """Return a profile that enables `Batch` with these args, and disables `DefaultPreemption`."""
    return {
        "schedulerName": scheduler_name,
        "plugins": {"multiPoint": {"enabled": [{"name": _BATCH}], "disabled": [{"name": "DefaultPreemption"}]}},
        "pluginConfig": [{"name": _BATCH, "args": args}],
    }


def _is_batch_file(root: object) -> bool:
    """Return whether the content of a file is the configuration of a batch scheduler."""
    if not isinstance(root, Mapping):
        return False
    kind = root.get("kind")
    if isinstance(kind, str) and (kind == _CONFIG_MAP or kind in _shards()):
        return True
    return kind in (None, "") and any(key in root for key in _PLAIN)


def _shards() -> dict[object, tuple[str, Shard]]:
    """Return by kind the objects that stand for a file, with the name of their preset."""
    return {preset.shard.kind: (name, preset.shard) for name, preset in presets().items() if preset.shard is not None}


def _args(root: Mapping[str, object]) -> tuple[dict[str, object], str]:
    """Return the args of `Batch` that a file stands for, and the path of their content in the file."""
    if found := _shards().get(root.get("kind")):
        name, shard = found
        return {"preset": name, "shard": _shard_spec(root, shard)}, "$"
    if root.get("kind") != _CONFIG_MAP:
        return _with_preset(root, ""), "$"
    return _of_config_map(root)


def _shard_spec(root: Mapping[str, object], shard: Shard) -> Mapping[str, object]:
    version, spec = root.get("apiVersion"), root.get("spec")
    if not isinstance(version, str) or version.partition("/")[0] != shard.group:
        text = f"expected apiVersion: {shard.group}/v1 of a {shard.kind}, found {shown(version)}"
        raise ConfigError(str(Problem(("apiVersion",), text)))
    if spec is not None and not isinstance(spec, Mapping):
        raise ConfigError(str(Problem(("spec",), f"expected a mapping, found {shown(spec)[:60]}")))
    return spec or {}


def _of_config_map(root: Mapping[str, object]) -> tuple[dict[str, object], str]:
    data = root.get("data")
    for key, text in data.items() if isinstance(data, Mapping) else ():
        if not isinstance(text, str):
            continue
        where = path_text(("data", key))
        try:
            document = read(text)
        except ConfigError as error:
            raise ConfigError(*(f"{problem} @ {where}" for problem in error.problems)) from error
        content = document.root
        if not isinstance(content, Mapping) or not _is_batch_file(content) or content.get("kind") == _CONFIG_MAP:
            continue
        if document.problems:
            raise ConfigError(*(f"{problem.message} @ {where}" for problem in document.problems))
        args, inner = _args(content)
        if "shard" not in args:
            named = (preset.name for preset in presets().values() if key in preset.config_map_keys)
            args = _with_preset(content, next(named, ""))
        return args, f"{where}{inner[1:]}"
    text = "no key of this ConfigMap holds a KubeSchedulerConfiguration, or the actions and tiers of a batch scheduler"
    raise ConfigError(str(Problem(("data",), text)))


def _with_preset(content: Mapping[str, object], named: str) -> dict[str, object]:
    """Return the content with its preset: what it says, else that of the ConfigMap, else what its names tell.

    A file that does not tell keeps its form, so that whoever reads the args warns about it.
    """
    said = {key: value for key, value in content.items() if key not in {"kind", "apiVersion"}}
    name, told = preset_of(said, presets())
    if not told and named:
        name, told = named, True
    return {"preset": name, **said} if told else said


class BatchForm:
    """The form of these files, for the configuration of the scheduler."""

    def reads(self, root: Mapping[str, object]) -> bool:
        """Return whether the content of a file is the configuration of a batch scheduler."""
        return _is_batch_file(root)

    def content(self, root: Mapping[str, object], gates: Mapping[str, bool]) -> Mapping[str, object]:
        """Return the content of a KubeSchedulerConfiguration, without kind and version, with the file's profile.

        Names of actions and policies are checked when the profile is built, because other distributions may add some.
        Raises `ConfigError` with a line for every other mistake.
        """
        args, where = _args(root)
        try:
            read_args = batch_args(args, where, checks_names=False)
        except ConfigError as error:
            # `shard` is the spec of an object.
            raise ConfigError(*(each.replace(f"{where}.shard", f"{where}.spec") for each in error.problems)) from error
        args.pop("schedulerName", None)
        profile = batch_profile(read_args.scheduler_name, args)
        return {"profiles": [systems()[read_args.preset].profile(profile, read_args, gates)]}

    def placed(self, root: Mapping[str, object]) -> Callable[[str], str]:
        """Return what turns the paths of messages about the plugin and its profile into paths of the file."""
        return partial(_placed, _args(root)[1])

    def with_plugins(self, plugins: Plugins, configs: Iterable[PluginConfig]) -> Plugins:
        """Return the plugins of a profile, with the Bind plugin that the args of `Batch` name."""
        return with_binder(plugins, configs)

    def expanded(self, config: PluginConfig) -> PluginConfig:
        """Return the args of `Batch` with the actions, tiers and settings that the spec of an object stands for."""
        args = config.args if config.name == _BATCH and isinstance(config.args, Mapping) else {}
        spec = args.get("shard")
        if not isinstance(spec, Mapping):
            return config
        name, _ = preset_of(args, presets())
        shard = presets()[name].shard
        assert shard is not None, "the args were read"
        settings, _ = shard.settings(spec)
        # The profile has the name.
        settings.pop("schedulerName", None)
        actions, tiers, _ = shard.actions_and_tiers(spec)
        others = {key: value for key, value in args.items() if key not in {"preset", "shard"}}
        return attrs.evolve(config, args={"preset": name, "actions": actions, "tiers": tiers, **settings, **others})


def _placed(where: str, message: str) -> str:
    return _PLACES.sub(lambda found: f"{where}.spec" if found[1] else where, message)


FORM: Final = BatchForm()
