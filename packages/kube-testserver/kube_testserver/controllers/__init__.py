"""Small versions of the programs that a cluster runs beside its API server: kubelets and controllers."""
