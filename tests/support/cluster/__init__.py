"""A real Kubernetes cluster on this machine: control plane, nodes in namespaces of their own, kvedge on each."""
