"""The exporter: serves the disks and files of claims by HTTPS, from a Pod of its own."""
