"""Rules in CEL in the schema of a CustomResourceDefinition (``x-kubernetes-validations``).

Import `checks` and `evaluation` only for a schema that has rules, because the import of `kube_cel` takes time.

Source: Kubernetes 1.36, `apiextensions-apiserver/pkg/apiserver/schema/cel`. Differs from Kubernetes: the cost of a rule
is not estimated, only counted while it runs. The order of a list of the type ``set`` or ``map`` matters if a rule
compares the list with a literal list.
"""
