"""This host: its facts, its health, its places and its systemd."""
