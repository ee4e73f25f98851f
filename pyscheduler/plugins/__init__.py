"""The in-tree plugins, one module or package each, under kube-scheduler's names.

Plugins that kube-scheduler does not have are separate packages in the top-level folder `plugins/`.
"""
