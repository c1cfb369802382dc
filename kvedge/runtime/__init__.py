"""Services, settings, systemd notify, logging, clock: what every role runs on."""
