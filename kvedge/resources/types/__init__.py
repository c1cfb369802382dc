"""The objects of the Kubernetes and KubeVirt APIs that kvedge reads and writes."""
