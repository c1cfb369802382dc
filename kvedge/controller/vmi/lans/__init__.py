"""Networks of the LAN on which guests are: nodes that have them, addresses on them, what users are told."""
