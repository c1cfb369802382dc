"""Devices of the node that go to the guest: which one each is, and whether it can be used."""
