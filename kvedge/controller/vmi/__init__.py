"""VirtualMachineInstances and their launcher Pods."""
