"""Guests that change their node because of an upgrade, or with their disks: what roles and clients must know alike."""
