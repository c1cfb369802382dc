"""What is under way: imports, copies, snapshots, backups and migrations, as one list."""
