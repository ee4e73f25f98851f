"""Load a configuration from a file or a text, or return the default configuration.

The file may also be a ConfigMap with a configuration, the zip file of a scheduler's `/debug/snapshot`, or the
configuration file of another scheduler (see `forms`).

Differs from kube-scheduler: without a file, the single profile is named `pyscheduler`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Final

import attrs

from pyscheduler.config.decode import decode_what_can_be
from pyscheduler.config.defaults import complete
from pyscheduler.config.feature_gates import default_gates
from pyscheduler.config.forms import form_of, has_forms
from pyscheduler.config.problems import Problem, found_in, shown
from pyscheduler.config.snapshot_file import CONFIGURATION, is_snapshot, members
from pyscheduler.config.types import API_VERSION, GROUP, KIND, Configuration
from pyscheduler.config.validation import problems_of
from pyscheduler.config.yaml_text import read
from pyscheduler.framework.errors import ConfigError, os_error_text
from pyscheduler.framework.in_tree_args import IN_TREE_ARGS

__all__ = ["Draft", "default_configuration", "draft", "load", "loads"]

#: Name of the profile without a file.
_OUR_NAME: Final = "pyscheduler"
#: Name of a file's only profile, if the file does not name it.
_THEIR_NAME: Final = "default-scheduler"
_CONFIG_MAP: Final = "ConfigMap"


@attrs.frozen
class Draft:
    """A configuration and its mistakes; a part of the wrong type has its default."""

    configuration: Configuration
    problems: tuple[str, ...] = ()
    #: Of the file, or of the key of a ConfigMap.
    text: str = ""

    def checked(self) -> Configuration:
        """Return the configuration; raise `ConfigError` with a line for every mistake."""
        if self.problems:
            raise ConfigError(*self.problems, source=self.configuration.source)
        return self.configuration


def load(path: str | os.PathLike[str] | None, *, gates: Mapping[str, bool] | None = None) -> Configuration:
    """Return the effective configuration in the file at `path`, or the default one for None.

    Defaults and checks depend on the feature gates `gates` (default: kube-scheduler's). Raises `ConfigError` with a
    line for every mistake.
    """
    return draft(path, gates=gates).checked()


def draft(path: str | os.PathLike[str] | None, *, gates: Mapping[str, bool] | None = None) -> Draft:
    """Return what `load` returns, with the mistakes that `load` raises.

    Raises `ConfigError` for a file that cannot be read, or that is no configuration.
    """
    if path is None:
        return Draft(default_configuration(gates=gates))
    source = os.fspath(path)
    try:
        with open(source, "rb") as file:  # noqa: PTH123 - a path object adds nothing here
            content = file.read()
    except OSError as error:
        raise ConfigError(os_error_text(error), source=source) from error
    if is_snapshot(content):
        (content,) = members(content, CONFIGURATION, source=source)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"line {line}: not UTF-8 text", source=source) from error
    return _draft(text, source, gates)


def loads(text: str, *, source: str | None = None, gates: Mapping[str, bool] | None = None) -> Configuration:
    """Return the effective configuration in `text`; `source` names it in messages. Raises as `load` does."""
    return _draft(text, source, gates).checked()


def _draft(text: str, source: str | None, gates: Mapping[str, bool] | None) -> Draft:
    with found_in(source):
        document = read(text)
    gates = gates if gates is not None else default_gates()
    root, problems = document.root, document.problems
    if isinstance(root, Mapping) and root.get("kind") == _CONFIG_MAP:
        with found_in(source):
            held = _held(root)
        if held is not None:
            key, inner = held
            return _draft(inner, f"{source}, key {key}" if source else f"key {key}", gates)
    form = form_of(root) if isinstance(root, Mapping) else None
    if form is None or not isinstance(root, Mapping):
        content = _content(root, source)
        found = _completed(content, _THEIR_NAME, source=source, gates=gates, problems=problems)
        return attrs.evolve(found, text=text)
    with found_in(source):
        content = form.content(root, gates)
    found = _completed(content, _THEIR_NAME, source=source, gates=gates, problems=problems)
    configuration = attrs.evolve(found.configuration, placed=form.placed(root))
    return attrs.evolve(found, configuration=configuration, text=text)


def _held(config_map: Mapping[str, object]) -> tuple[str, str] | None:
    """Return the key of a ConfigMap that holds a KubeSchedulerConfiguration, and its text; None if no key does.

    Raises `ConfigError` if there are other keys, because a mounted ConfigMap has a file for each.
    """
    data = config_map.get("data")
    texts = {key: text for key, text in data.items() if isinstance(text, str)} if isinstance(data, Mapping) else {}
    found = [key for key, text in texts.items() if _is_configuration(text)]
    if not found:
        return None
    if len(texts) > 1:
        keys = ", ".join(texts)
        text = f"this ConfigMap has {len(texts)} keys: {keys}; leave only the one with the configuration"
        raise ConfigError(str(Problem(("data",), text)))
    return found[0], texts[found[0]]


def _is_configuration(text: str) -> bool:
    try:
        root = read(text).root
    except ConfigError:
        return KIND in text  # its mistakes are reported with the key
    return isinstance(root, Mapping) and root.get("kind") == KIND


def default_configuration(*, gates: Mapping[str, bool] | None = None) -> Configuration:
    """Return the default configuration, which is used without a file."""
    return _completed({}, _OUR_NAME, source=None, gates=gates, problems=()).checked()


def _content(root: object, source: str | None) -> Mapping[str, object]:
    """Return the content of a file without its kind and version, which must be the supported ones."""
    if root is None:
        raise ConfigError(f"the file is empty; a configuration begins with apiVersion: {API_VERSION}", source=source)
    if not isinstance(root, Mapping):
        found = "a list" if isinstance(root, list) else shown(root)
        raise ConfigError(f"expected a {KIND}, found {found} @ $", source=source)
    problems = list(_identity_problems(root))
    if problems:
        raise ConfigError(*map(str, problems), source=source)
    return {key: value for key, value in root.items() if key not in {"kind", "apiVersion"}}


def _identity_problems(root: Mapping[str, object]) -> Iterator[Problem]:
    kind, version = root.get("kind"), root.get("apiVersion")
    for key, value, expected in (("kind", kind, KIND), ("apiVersion", version, API_VERSION)):
        if value is None or value == "":
            yield Problem((key,), f"Object '{key}' is missing; write {key}: {expected}{_hint()}")
        elif not isinstance(value, str):
            yield Problem((key,), f"expected {expected}, found {shown(value)}")
    if not (isinstance(kind, str) and isinstance(version, str) and kind and version):
        return
    if version == API_VERSION and kind in {f"{name}Args" for name in IN_TREE_ARGS}:
        yield Problem(("kind",), f"couldn't decode as {KIND}, got {GROUP}/v1, Kind={kind}")
    elif (kind, version) != (KIND, API_VERSION):
        key, right = ("kind", KIND) if version == API_VERSION else ("apiVersion", API_VERSION)
        text = f'no kind "{kind}" is registered for version "{version}"; write {key}: {right}{_hint()}'
        yield Problem((key,), text)


def _hint() -> str:
    """Return what to install where no distribution reads files of another form."""
    return "" if has_forms() else "; files of batch schedulers need pip install 'kube-pyscheduler[batch]'"


def _completed(
    content: Mapping[str, object],
    default_name: str,
    *,
    source: str | None,
    gates: Mapping[str, bool] | None,
    problems: tuple[Problem, ...],
) -> Draft:
    gates = gates if gates is not None else default_gates()
    content = _with_a_profile(content, default_name)
    read_so_far, wrong = decode_what_can_be(content, Configuration)
    configuration = complete(attrs.evolve(read_so_far, source=source), _profiles_said(content), gates)
    found = [*problems, *wrong]
    # A part of the wrong type was replaced by its default, so errors about its value are omitted.
    untrue = {problem.path for problem in found}
    found += [
        problem
        for problem in problems_of(configuration, gates)
        if not any(problem.path[:length] in untrue for length in range(len(problem.path) + 1))
    ]
    return Draft(configuration, tuple(map(str, found)))


def _with_a_profile(content: Mapping[str, object], default_name: str) -> Mapping[str, object]:
    """Return `content` with at least one profile; an only profile has a name."""
    profiles = content.get("profiles")
    if profiles is None or profiles == []:
        profiles = [None]
    if not (isinstance(profiles, list) and len(profiles) == 1):
        return content
    single = profiles[0] if profiles[0] is not None else {}
    if isinstance(single, Mapping) and single.get("schedulerName") is None:
        single = {**single, "schedulerName": default_name}
    return {**content, "profiles": [single]}


def _profiles_said(content: Mapping[str, object]) -> list[Mapping[str, object]]:
    profiles = content.get("profiles")
    items = profiles if isinstance(profiles, list) else []
    return [item if isinstance(item, Mapping) else {} for item in items]
