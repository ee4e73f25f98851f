"""The in-tree plugins, one module or package each, under kube-scheduler's names.

Belongs here: the plugins of kube-scheduler 1.36, with its decisions, scores and messages. A plugin imports only
`framework`, `podgroup` and `api`, as third-party plugins do. `hooks` registers the plugins by name, as third-party
packages do; a plugin is imported when a profile enables it.

Does not belong here: plugins that kube-scheduler does not have. Those are separate packages in the top-level
`plugins/`.
"""
