"""The KubeVirt object, and what the cluster lets VMs use."""
