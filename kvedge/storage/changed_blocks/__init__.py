"""Disks as their guests had them at one moment: what of them is read, and the images that it is kept in."""
