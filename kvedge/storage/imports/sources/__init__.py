"""What a claim is filled from: web servers, S3 stores, registries and images of the node."""
