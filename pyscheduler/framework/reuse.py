"""`Reuse`: a plugin declares how long its answers stay valid, so that the scheduler can reuse them for equal pods.

A Job often has thousands of equal pods.
"""

from __future__ import annotations

from enum import Enum

__all__ = ["Reuse"]


class Reuse(Enum):
    """The facts besides the pod's spec on which a plugin's answers about a node depend. Set it as `reuse` on the class.

    A plugin that sets anything but `NEVER` promises:

    - Of the pod it looks at nothing but what it asks for and demands of nodes: containers and init containers, overhead
      and pod-level resources, node selector, node affinity, tolerations, node name, host network and users, image
      volumes, and the annotations that it names in `reuse_annotations`. Not at its name, labels, other annotations,
      priority, or (anti-)affinity to other pods. Nothing is kept of pods with resource claims, nor of those for which
      some plugin's `may_reuse(pod)` returns False.
    - `pre_filter` and `pre_score` look at the pod alone, and only pass or skip the pod.
    - `filter_nodes` and `score_nodes` answer for each row by itself, whichever other rows they are asked about, and can
      be asked about nodes that do not fit.
    - `normalize_scores` gives a score by itself, the least and the greatest of all: equal scores stay equal.
    - Nothing else has a part in it: not the time, not objects of other kinds, not what the plugin has seen before.
      With `UNTIL_FORGOTTEN` other things may, if the plugin says so at each change.
    """

    NEVER = "never"
    """Anything at all: asked anew for every pod. What plugins are that do not say otherwise."""
    WHILE_NODES_STAY = "while nodes stay"
    """The node objects of the whole cluster, and no pods; for scores. Kept until any node changes, comes or goes."""
    WHILE_NODE_STAYS = "while node stays"
    """The node object (labels, taints, ...), and no pods. Kept until that very node changes."""
    WHILE_PODS_STAY = "while pods stay"
    """The node object and the pods on it. Kept until a pod comes to that node or goes, or the node changes."""
    WHILE_AMOUNTS_STAY = "while amounts stay"
    """Amounts only: what the node offers, what its pods request, how many they are. Equal amounts, equal answers."""
    UNTIL_FORGOTTEN = "until forgotten"
    """The node object, the pods on it, and what the plugin knows of it: kept until either changes, or the plugin calls
    `handle.forget_answers([node_name])`. For measured load, reports of devices and the like."""
