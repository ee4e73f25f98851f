"""Rules in CEL in the schema of a CustomResourceDefinition (``x-kubernetes-validations``).

Import `checks` and `evaluation` only for a schema that has rules, because the import of `kube_cel` takes time.

Differs from Kubernetes: the cost of a rule is not estimated, only counted while the rule runs. A list of the
type ``set`` or ``map`` equals a literal list only if their elements have the same order.
Source: Kubernetes 1.36, `apiextensions-apiserver/pkg/apiserver/schema/cel`.
"""
