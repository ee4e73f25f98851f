"""Check kubeconfig files, and report what is missing in which file and entry."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from pyscheduler.framework.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["disables_compression", "find_context", "namespace_of", "one_path", "resolve_command", "split_paths"]

#: The official client passes these over, and would act as the user itself.
_IMPERSONATION: Final = ("as", "as-uid", "as-groups", "as-user-extra")

# libyaml is several times faster, but an installation may lack it.
_Loader: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def split_paths(paths: str) -> list[Path]:
    """Return the files of a list such as `$KUBECONFIG` holds; empty entries are skipped."""
    return [Path(part).expanduser() for part in paths.split(os.pathsep) if part]


def one_path(path: str) -> list[Path]:
    """Return the file of a flag or a configuration, which is never a list: a colon belongs to its name."""
    return [Path(path).expanduser()]


def find_context(paths: Sequence[Path], context: str | None = None) -> str:
    """Return the name of the context to use: `context`, or the current one of the first file that names one.

    Raises `ConfigError` where these files do not give it a server and a user. Of several files some may be missing; of
    two entries with one name the first counts, as for kubectl.
    """
    present = [path for path in paths if len(paths) == 1 or path.exists()]
    shown = os.pathsep.join(str(path) for path in paths)
    if not present:
        raise ConfigError(f"none of these kubeconfigs exists: {shown}")
    documents = [_read(path) for path in present]
    name = context or next((text for text in (_text(each, "current-context") for each in documents) if text), "")
    if not name:
        raise ConfigError(f"kubeconfig {shown} names no current-context; choose one with: kubectl config use-context")
    chosen = _entry(documents, "contexts", "context", name, shown)
    cluster = _text(chosen, "cluster")
    if not cluster:
        raise ConfigError(f"kubeconfig {shown}: context {name!r} names no cluster")
    if not _text(_entry(documents, "clusters", "cluster", cluster, shown), "server"):
        raise ConfigError(f"kubeconfig {shown}: cluster {cluster!r} has no server")
    user = _text(chosen, "user")
    if not user:
        raise ConfigError(f"kubeconfig {shown}: context {name!r} names no user")
    found = _entry(documents, "users", "user", user, shown)
    if any(found.get(key) for key in _IMPERSONATION):
        raise ConfigError(
            f"kubeconfig {shown}: user {user!r} impersonates another user (`as`), which is not supported; "
            "use that account's own credentials"
        )
    return name


def namespace_of(paths: Sequence[Path], context: str) -> str:
    """Return the namespace that a context, found by `find_context`, names; "" where it names none."""
    documents = [_read(path) for path in paths if path.exists()]
    return _text(
        _entry(documents, "contexts", "context", context, os.pathsep.join(str(path) for path in paths)), "namespace"
    )


def disables_compression(paths: Sequence[Path], context: str) -> bool:
    """Return True if the cluster of a context, found by `find_context`, says `disable-compression`."""
    documents = [_read(path) for path in paths if path.exists()]
    shown = os.pathsep.join(str(path) for path in paths)
    cluster = _text(_entry(documents, "contexts", "context", context, shown), "cluster")
    return _entry(documents, "clusters", "cluster", cluster, shown).get("disable-compression") is True


def resolve_command(command: str, kubeconfig: Path) -> str:
    """Return where an exec plugin lies: a path is relative to its kubeconfig, a bare name is looked for in `$PATH`."""
    return os.path.normpath(kubeconfig.absolute().parent / command) if os.sep in command else command


def _read(path: Path) -> dict[str, Any]:
    try:
        document = yaml.load(path.read_bytes(), Loader=_Loader)  # noqa: S506 - a safe loader either way
    except FileNotFoundError as error:
        raise ConfigError(f"kubeconfig {path} does not exist; name one with --kubeconfig or $KUBECONFIG") from error
    except OSError as error:
        raise ConfigError(f"kubeconfig {path} cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}" if mark is not None else ""
        why = " ".join(str(getattr(error, "problem", None) or error).split())
        raise ConfigError(f"kubeconfig {path} is not YAML{where}: {why}") from error
    if not isinstance(document, dict):
        raise ConfigError(f"kubeconfig {path} is no kubeconfig: it holds no mapping with clusters, contexts and users")
    return document


def _entry(documents: Sequence[dict[str, Any]], plural: str, singular: str, name: str, shown: str) -> dict[str, Any]:
    for document in documents:
        entries = document.get(plural) or []
        if not isinstance(entries, list) or not all(isinstance(each, dict) and "name" in each for each in entries):
            raise ConfigError(f"kubeconfig {shown}: {plural} is not a list of entries with a name each")
        for entry in entries:
            if entry["name"] == name:
                found = entry.get(singular) or {}
                if not isinstance(found, dict):
                    raise ConfigError(f"kubeconfig {shown}: {singular} {name!r} is not a mapping")
                return found
    raise ConfigError(f"kubeconfig {shown} has no {singular} {name!r}")


def _text(mapping: dict[str, Any], key: str) -> str:
    value = mapping.get(key)
    return value if isinstance(value, str) else ""
