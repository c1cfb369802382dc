"""Links in a network namespace, and DHCP: message, decision, socket."""
