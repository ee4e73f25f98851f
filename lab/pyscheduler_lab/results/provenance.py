"""The origin of a run: the versions of the code, the commit of a checkout, hashes of files."""

from __future__ import annotations

import hashlib
import re
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from pyscheduler.framework.hooks import ENTRY_POINT_GROUP

if TYPE_CHECKING:
    import os

__all__ = ["Checkout", "checkout", "sha256_of_path", "sha256_of_text", "versions"]

_GIT_SECONDS: Final = 10.0
_LAB: Final = "kube-pyscheduler-lab"
#: The name at the begin of a requirement.
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


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
    root = next((each for each in Path(__file__).parents if (each / ".git").exists()), None)
    if root is None:
        return None
    try:
        commit = _git(root, "rev-parse", "HEAD")
        status = _git(root, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):  # no git, or not a repository that it may read
        return None
    return Checkout(commit=commit, is_changed=bool(status))


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(
        ("git", "-C", str(root), *arguments),  # noqa: S607 - the user's git
        check=True,
        capture_output=True,
        text=True,
        timeout=_GIT_SECONDS,
    )
    return done.stdout.strip()


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
