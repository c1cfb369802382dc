"""Networks besides the Pod network: bridges and NICs of the host that Pods join by name."""
