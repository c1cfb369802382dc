"""What this node must do for its VMs."""
