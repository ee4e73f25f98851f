"""Admission webhooks: the choice of webhooks for a write, the calls, and the effect of the answers.

The registry does not wait, but a webhook takes time. So a request that needs answers of webhooks is stopped with
`ReviewsNeededError`, the webhooks are called, and the request is run again from its beginning, with the answers at
hand. Nothing is stored before all webhooks have answered. If the object in the store has changed meanwhile, the
webhooks are called again. Without a configuration, a request costs a look at two empty collections.

Source: Kubernetes 1.36, `apiserver/pkg/admission/plugin/webhook`. Differs from Kubernetes: the rules of a webhook are
compared only with the resource and version of the request (`matchPolicy: Exact`), a service cannot be reached, and a
later webhook's change is not shown to earlier ones (`reinvocationPolicy`). Webhooks are not called for reviews of
access and tokens, or for writes of the server itself.
"""
