"""By which counters guests tell time."""
