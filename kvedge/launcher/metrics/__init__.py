"""Metrics of the host that guests read, as vhostmd has them: from a small disk, or over a serial port."""
