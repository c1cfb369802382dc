"""One container: its root, its privileges, its process, its sessions and logs."""
