"""VirtualMachines: when they run, and what of them is a VMI."""
