"""What this node gives to guests: KVM, devices, mounts, labels."""
