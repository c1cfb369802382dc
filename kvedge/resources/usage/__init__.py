"""What guests use, as roles tell each other."""
