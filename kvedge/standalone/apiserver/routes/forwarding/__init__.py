"""kubectl port-forward: SPDY in a websocket, and sockets in the Pod's network."""
