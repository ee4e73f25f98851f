"""Rules in CEL in the schema of a CustomResourceDefinition (``x-kubernetes-validations``).

`checks` checks the rules of a definition, and `evaluation` applies them to an object. Both modules import `kube_cel`,
which is slow to import, so callers import them only for a schema that has rules.

Source: Kubernetes 1.36, `apiextensions-apiserver/pkg/apiserver/schema/cel`. Differs from Kubernetes: the cost of a rule
is not estimated, only counted while it runs. The order of a list of the type ``set`` or ``map`` matters if a rule
compares the list with a literal list.
"""
