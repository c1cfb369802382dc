"""VMs as files: one VM with its disks in an archive, written, checked and read; images of other programs."""
