"""Small versions of the programs that a cluster runs beside its API server: kubelets and controllers.

Some run only after a write and within it, such as the removal of a namespace. Others follow the store's log of changes.
"""
