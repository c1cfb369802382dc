"""What guests are told of their network: DHCP, DHCPv6, router advertisements."""
