"""Measures kvedge against a bare libvirt loop, in one run; `tests/bench/run` starts it."""
