"""The server's own loops over objects: garbage, namespaces, certificates, copies."""
