"""Claims of VMs' disks: what there is, who uses it, making and growing it."""
