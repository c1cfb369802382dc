"""Devices of this node that go to guests: which there are, which are offered, and which VM has each."""
