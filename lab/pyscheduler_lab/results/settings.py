"""The settings of a simulation: everything on which its results depend, except the installed code."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

import msgspec

__all__ = ["FILES", "RunSettings", "Ties"]

Ties: TypeAlias = Literal["random", "first", "last"]

_YEAR_SECONDS: Final = 31_536_000

FILES: Final = ("trace", "nodes", "policy", "failures")
"""Settings that may name a file. A bundle has a copy of the file."""


class RunSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The trace, nodes and policy of a run, and all options that change its tables.

    The seed changes two things: the order of jobs that arrive at the same time (seed 0 keeps the order of the trace),
    and every random draw of the replay: choices among equal nodes with `ties` random, where a search for victims
    begins, uids and the jitter of retries.
    """

    trace: str
    nodes: str
    #: The name of a policy, or the path of a configuration file.
    policy: str
    #: Weights of Score plugins, in place of those of the policy.
    weights: dict[str, int] = {}
    #: The power of nodes by GPU model, as in `A100=400+350`.
    watts: str = ""
    #: The path of a file with failures and node groups.
    failures: str | None = None
    vc: str | None = None
    #: All virtual clusters of the trace share the nodes.
    merge_vcs: bool = False
    shape: Literal["worker", "nodepack"] | None = None
    #: The columns of the file that are columns of the schema, by the name in the schema.
    trace_columns: dict[str, str] = {}
    #: Only the first jobs of the trace.
    jobs: int | None = None
    #: GPUs by team; None: in proportion to the work of each team.
    quotas: dict[str, int] | None = None
    seed: int = 0
    #: The choice among nodes of equal score.
    ties: Ties = "random"
    #: `full`: with an API server; `decisions`: with typed objects in memory.
    fidelity: Literal["full", "decisions"] = "full"
    feature_gates: str = ""
    max_unschedulable_seconds: Annotated[float, msgspec.Meta(gt=0, le=_YEAR_SECONDS)] = 21_600.0
    #: Distributions and entry points that are ignored.
    blocked: tuple[str, ...] = ()
