"""This host as a node of a cluster: joining, leaving, renewing."""
