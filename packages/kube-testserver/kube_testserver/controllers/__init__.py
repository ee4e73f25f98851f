"""Small versions of the programs that a cluster runs beside its API server: kubelets and controllers.

Some act within the write that triggers them, such as the removal of a namespace. Others follow the store's log of
changes.
"""
