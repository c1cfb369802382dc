"""One VM: domain converter, libvirt, the gRPC server, cloud-init."""
