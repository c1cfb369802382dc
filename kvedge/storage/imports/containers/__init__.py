"""Container disks as sources: the disk in a layer, whether a registry has it or an archive."""
