"""The embedded libvirt: its set-up, its session, its events."""
