"""Small versions of the programs that a cluster runs beside its API server: kubelets and controllers.

Some act at once, within the request that triggers them. Others act a moment later.
"""
