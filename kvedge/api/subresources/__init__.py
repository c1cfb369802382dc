"""The aggregated API: power, consoles, ports and guest information of VMs."""
