"""What a Pod is given on its node: volumes, environment, devices, networks and name servers."""
