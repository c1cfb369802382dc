"""Container disks, images and volumes."""
