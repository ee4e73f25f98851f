"""The model: a node's score is a weighted sum of numbers that describe the node with the pod on it."""

from __future__ import annotations

from importlib.resources import files
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from pyscheduler_lab.gym import split

__all__ = ["FEATURES", "action_scores", "learned_weights"]

FEATURES: Final = ("cpu_left", "memory_left", "gpus_left", "shared_room_left", "opens_gpu", "gpus")
"""The features that have weights; `opens_gpu` is 1 if a pod that shares a GPU needs one that is not shared yet."""


def learned_weights() -> NDArray[np.float64]:
    """Return the weights that `python -m gym_policy.train` wrote."""
    text = (files("gym_policy") / "weights.json").read_bytes()
    return np.array([msgspec.json.decode(text)[name] for name in FEATURES])


def action_scores(weights: NDArray[np.float64], observation: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return a score for each node, and the least for leaving the pod pending."""
    nodes, pod = split(observation)
    cpu, memory, gpus, part = pod
    shares = 0 < part < 1
    opens = nodes[:, 4] < part if shares else np.zeros(len(nodes))
    taken = gpus * (opens if shares else 1.0)
    features = np.stack(
        [
            nodes[:, 0] - cpu,
            nodes[:, 1] - memory,
            nodes[:, 2] - taken,
            nodes[:, 3] - gpus * part * shares + taken * shares,
            opens,
            nodes[:, 5],
        ],
        axis=1,
    )
    scores = features @ weights
    return np.append(scores, scores.min() - 1)
