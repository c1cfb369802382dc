"""Exported disks and files as their users see them: exports made, waited for, and read."""
