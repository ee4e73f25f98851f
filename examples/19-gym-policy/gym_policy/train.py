"""Learn the weights by random search, compare them with random placement, or measure steps per second.

For learning and comparing, the cluster has every n-th node of openb, a published GPU cluster. Pods arrive until they
request 130 % of its GPUs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from gym_policy.model import FEATURES, action_scores, learned_weights
from pyscheduler_lab.clusters import Cluster
from pyscheduler_lab.gym import SchedulingEnv
from pyscheduler_lab.traces import Job
from pyscheduler_lab.traces.trace import Trace

__all__ = ["allocation", "make_env"]

Policy = Callable[[NDArray[np.float32], NDArray[np.bool_]], int]


def make_env(every: int) -> SchedulingEnv:
    """Return the environment with every n-th node of openb."""
    nodes = Cluster.read("openb").nodes[::every]
    return SchedulingEnv(Cluster(nodes=nodes), Trace.read("openb"), load=1.3)


def linear(weights: NDArray[np.float64]) -> Policy:
    """Return the policy that takes the feasible node with the greatest score."""

    def choose(observation: NDArray[np.float32], mask: NDArray[np.bool_]) -> int:
        return int(np.argmax(np.where(mask, action_scores(weights, observation), -np.inf)))

    return choose


def uniform(seed: int) -> Policy:
    """Return the policy that takes a feasible node at random."""
    rng = np.random.default_rng(seed)

    def choose(_: NDArray[np.float32], mask: NDArray[np.bool_]) -> int:
        nodes = np.flatnonzero(mask[:-1])
        return int(rng.choice(nodes)) if len(nodes) else len(mask) - 1

    return choose


def allocation(env: SchedulingEnv, policy: Policy, seed: int) -> float:
    """Play one episode; return the share of GPUs that is allocated at its end."""
    observation, info = env.reset(seed=seed)
    ended = False
    while not ended:
        observation, _, ended, _, info = env.step(policy(observation, env.action_masks()))
    return float(info["gpu_allocation"])


def search(env: SchedulingEnv, rounds: int) -> NDArray[np.float64]:
    """Return the best weights of a random search that moves on from the best so far."""
    rng = np.random.default_rng(0)
    best, most = np.zeros(len(FEATURES)), 0.0
    for number in range(rounds):
        weights = best + rng.normal(size=len(FEATURES)) * (1.0 if number < rounds // 2 else 0.3)
        found = float(np.mean([allocation(env, linear(weights), seed) for seed in (100, 101)]))
        if found > most:
            best, most = weights, found
            print(f"round {number}: {found:.1%}")
    return best


def compare(env: SchedulingEnv) -> None:
    """Print the allocation of GPUs for five seeds that training has not seen."""
    gains = []
    for seed in range(5):
        learned, chance = (allocation(env, policy, seed) for policy in (linear(learned_weights()), uniform(seed)))
        gains.append(learned - chance)
        print(f"seed {seed}: learned {learned:.1%}, random {chance:.1%}")
    print(f"gain: {100 * float(np.mean(gains)):.1f} points")


def speed() -> None:
    """Print steps per second on 1,000 nodes, with a random policy."""
    jobs = [Job(name=f"job-{n}", arrival=n, duration=2000, cpu_milli=1000, gpus=1 + n % 4) for n in range(5000)]
    env = SchedulingEnv(Cluster.uniform(1000), Trace(jobs=jobs))
    env.reset(seed=0)
    policy, began, ended, steps = uniform(0), time.process_time(), False, 0
    observation, _ = env.reset(seed=0)
    while not ended:
        observation, _, ended, _, _ = env.step(policy(observation, env.action_masks()))
        steps += 1
    print(f"{steps / (time.process_time() - began):.0f} steps per second of CPU time")


def main() -> None:
    """Run the part that the arguments name."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["learn", "compare", "speed"])
    parser.add_argument("--every", type=int, default=20, help="take every n-th node of openb")
    parser.add_argument("--rounds", type=int, default=40)
    chosen = parser.parse_args()
    if chosen.part == "speed":
        speed()
    elif chosen.part == "compare":
        compare(make_env(chosen.every))
    else:
        weights = search(make_env(chosen.every), chosen.rounds)
        learned = {name: round(float(value), 3) for name, value in zip(FEATURES, weights, strict=True)}
        (Path(__file__).parent / "weights.json").write_bytes(msgspec.json.format(msgspec.json.encode(learned)) + b"\n")


if __name__ == "__main__":
    main()
