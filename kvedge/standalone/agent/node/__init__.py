"""The Node: its object, its network, and which Pods it is given."""
