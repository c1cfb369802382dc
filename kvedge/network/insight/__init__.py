"""What goes on on a guest's way to the network: links, counters, drops. Nothing here changes anything."""
