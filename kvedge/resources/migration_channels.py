"""The sockets by which a guest moves, in both launcher Pods at the same path: libvirt and QEMU name them to each other.

Made by the launcher that the guest comes to, and by the handler in the Pod that it leaves. Constants only, and nothing
imported: the launcher's options are read before anything is loaded.
"""

from __future__ import annotations

# Below the Pod's volume `public`.
MIGRATION_FOLDER = "migration"
# libvirt speaks to libvirt: the name that libvirt's daemon gives its socket.
CONTROL = "libvirt-sock"
# QEMU's memory; several connections at once.
MEMORY = "memory-sock"
# Disks that are copied, by QEMU's NBD.
DISKS = "disks-sock"
CHANNELS = (CONTROL, MEMORY, DISKS)
