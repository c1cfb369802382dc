"""Hotplugged volumes: from the attachment Pod into the launcher's, and back; and how long a guest waits for them."""
