"""The in-tree plugins, one module or package each, under kube-scheduler's names.

Belongs here: what kube-scheduler 1.36 ships, with its decisions, scores and messages, written over columns of nodes. A
plugin imports `framework` and `api` like anybody's, never another plugin: what two of them share is in `framework`.
`hooks` registers them by name, the way any distribution does; nothing imports them before a profile enables them.

Does not belong here: policies of our own. Those are distributions under `plugins/` at the top of the repository.
"""
