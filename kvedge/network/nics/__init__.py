"""A NIC of the host that becomes a port of a bridge, with the host's addresses moved over, and back again."""
