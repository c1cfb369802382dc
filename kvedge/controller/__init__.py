"""Which objects must exist in the cluster: VM to VMI, VMI to launcher Pod."""
