"""Hook sidecars: programs of users that are asked about the domain's document and cloud-init's data."""
