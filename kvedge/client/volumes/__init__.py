"""Claims of VMs' disks: which there are, which VMs use them, making and growing them."""
