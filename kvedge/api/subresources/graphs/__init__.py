"""What belongs to a VM: the tree of objects that its specification names."""
