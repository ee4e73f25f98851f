"""Rules in CEL of a CustomResourceDefinition's schema (``x-kubernetes-validations``): checked, and applied to objects.

The module `checks` compiles the rules of a new definition and reports what is wrong with them. The module `evaluation`
applies the rules of a schema to an object. The module `schema_types` returns the CEL types of schemas, and the CEL
values of JSON. These three modules import `kube_cel`, which is slow to import, so callers import them only for a schema
that has rules.

Source: Kubernetes 1.36, `apiextensions-apiserver/pkg/apiserver/schema/cel`. Differs from Kubernetes: the cost of a rule
is not estimated, only counted while it runs. The order of a list of the type ``set`` or ``map`` matters if a rule
compares the list with a literal list.
"""
