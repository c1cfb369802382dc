"""Rules for disks, volumes and DataVolumes."""
