"""Unit tests of kvedge.appliance."""
