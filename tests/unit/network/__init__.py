"""Network decisions and packets: no socket, no kernel."""
