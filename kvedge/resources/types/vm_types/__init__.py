"""The kinds that VMs name for what they do not say themselves: instance types and preferences."""
