"""Devices of nodes that go to guests: what is permitted, what a Pod asks for, what a node says it has."""
