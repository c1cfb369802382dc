"""The host: unpack, install, upgrade, uninstall, doctor, bundle."""
