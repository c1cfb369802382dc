"""The Nodes: which of them can run VMs."""
