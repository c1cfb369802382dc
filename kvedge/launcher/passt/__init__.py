"""passt beside QEMU: the process that speaks for a guest from its Pod's own addresses."""
