"""This host: its health, its places and its systemd."""
