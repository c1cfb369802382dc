"""The Pods of this node: their images, volumes, addresses, probes and status."""
