"""The in-tree plugins, one module or package each, under kube-scheduler's names.

Belongs here: the plugins of kube-scheduler 1.36, with its decisions, scores and messages. They use the same interface
as third-party plugins: `framework`, `podgroup` and `api`.

Does not belong here: plugins that kube-scheduler does not have. Those are separate packages in the top-level
`plugins/`.
"""
