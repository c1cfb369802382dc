"""The guest's disks and firmware files, prepared before it starts."""
