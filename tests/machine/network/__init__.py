"""Real namespaces, links, filters and DHCP clients: needs root, no KVM and no guest."""
