"""The one door to a Kubernetes-style API: client, informers, patches, leases, errors."""
