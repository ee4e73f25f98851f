"""Identify the code that a simulation used: versions of packages, the commit, and hashes of files."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit
from urllib.request import url2pathname

import msgspec
import yaml

from pyscheduler.framework.hooks import ENTRY_POINT_GROUP

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.metadata import Distribution

__all__ = ["Checkout", "checkout", "local_code", "plugin_files", "sha256_of_path", "sha256_of_text", "versions"]

_GIT_SECONDS: Final = 10.0
_LAB: Final = "kube-pyscheduler-lab"
#: The name at the begin of a requirement.
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
#: Folders with one of these files hold an environment of Python, not code of a project.
_ENVIRONMENT: Final = ("pyvenv.cfg", "conda-meta")


class Checkout(msgspec.Struct, frozen=True, kw_only=True):
    """The commit that the code was run from; `is_changed` if files differ from it."""

    commit: str
    is_changed: bool


@cache
def versions() -> dict[str, str]:
    """Return the version of each installed distribution that a run may involve, by name.

    These are the lab, the distributions that offer plugins, and everything that these require.
    """
    waiting = [_LAB, *(point.dist.name for point in entry_points(group=ENTRY_POINT_GROUP) if point.dist is not None)]
    found: dict[str, str] = {}
    while waiting:
        name = waiting.pop()
        try:
            each = distribution(name)
        except PackageNotFoundError:  # an extra or a marker that is not for this environment
            continue
        if each.name not in found:
            found[each.name] = each.version
            waiting += [match[0] for line in each.requires or () if (match := _NAME.match(line))]
    return dict(sorted(found.items()))


@cache
def checkout() -> Checkout | None:
    """Return the commit of the checkout that this module lies in; None for an installed package."""
    root = _root()
    if root is None:
        return None
    try:
        commit = _git(root, "rev-parse", "HEAD")
        status = _git(root, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):  # no git, or not a repository that it may read
        return None
    return Checkout(commit=commit, is_changed=bool(status))


@cache
def local_code() -> dict[str, str]:
    """Return the SHA-256 of the Python files of each distribution of `versions` that does not come from an index.

    Such a distribution keeps its version when its code changes. For `pip install -e`, the files of its folder count,
    without tracked folders of the checkout, for which the commit counts. For others, the installed files count.
    """
    known = _tracked_projects()
    found = {}
    for name in versions():
        each = distribution(name)
        text = each.read_text("direct_url.json")  # the installer writes it unless the files came from an index
        if text is None:
            continue
        origin = msgspec.json.decode(text)
        if not origin.get("dir_info", {}).get("editable"):
            found[name] = sha256_of_text("".join(sorted(_installed_files(each))))
            continue
        folder = Path(url2pathname(urlsplit(origin["url"]).path)).resolve()
        if folder not in known:
            found[name] = sha256_of_text("".join(sorted(_python_files(folder))))
    return found


def _installed_files(each: Distribution) -> Iterator[str]:
    """Yield the names and hashes of the Python files of a distribution, as its installer wrote them."""
    for file in each.files or ():
        if file.suffix == ".py" and file.hash is not None:
            yield f"{file.as_posix()} {file.hash.value}\n"


def _python_files(root: Path) -> Iterator[str]:
    """Yield the names and hashes of the Python files below a folder, without hidden folders and environments."""
    for parent, folders, files in os.walk(root):
        here = Path(parent)
        folders[:] = [
            name
            for name in folders
            if not name.startswith(".") and not any((here / name / each).exists() for each in _ENVIRONMENT)
        ]
        for path in (here / name for name in files if name.endswith(".py")):
            yield f"{path.relative_to(root).as_posix()} {sha256_of_path(path)}\n"


def _tracked_projects() -> set[Path]:
    """Return the folders of projects that belong to the checkout."""
    root = _root()
    if root is None or checkout() is None:
        return set()
    return {(root / line).parent.resolve() for line in _git(root, "ls-files", "*pyproject.toml").splitlines()}


def _root() -> Path | None:
    """Return the folder of the checkout that this module lies in."""
    return next((each for each in Path(__file__).parents if (each / ".git").exists()), None)


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(
        ("git", "-C", str(root), *arguments),  # noqa: S607 - the user's git
        check=True,
        capture_output=True,
        text=True,
        timeout=_GIT_SECONDS,
    )
    return done.stdout.strip()


def plugin_files(policy: str) -> dict[str, str]:
    """Return the SHA-256 of each file that a text in a configuration file names, such as an arg of a plugin, by path.

    `policy`: the path of the configuration, or the name of a policy, which names no file.
    """
    path = Path(policy)
    if not path.is_file():
        return {}
    # Aliases of YAML may contain themselves.
    waiting, seen = [yaml.safe_load(path.read_bytes())], set()
    found = {}
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            if each and os.path.isfile(each):  # noqa: PTH113 - of a text that is no path, it is False
                found[each] = sha256_of_path(each)
        elif isinstance(each, (dict, list)) and id(each) not in seen:
            seen.add(id(each))
            waiting += each.values() if isinstance(each, dict) else each
    return dict(sorted(found.items()))


def sha256_of_path(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file in hexadecimal digits; of a folder, that of the names and hashes of its files."""
    root = Path(path)
    if root.is_dir():
        files = sorted(each for each in root.rglob("*") if each.is_file())
        return sha256_of_text(
            "".join(f"{each.relative_to(root).as_posix()} {sha256_of_path(each)}\n" for each in files)
        )
    with root.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_of_text(text: str) -> str:
    """Return the SHA-256 of a text in UTF-8, in hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()
