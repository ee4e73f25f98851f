"""CEL rules in the schema of a CustomResourceDefinition (``x-kubernetes-validations``).

Differs from Kubernetes: the cost of a rule is not estimated, only counted while the rule runs.
Source: Kubernetes 1.36, `apiextensions-apiserver/pkg/apiserver/schema/cel`.
"""
