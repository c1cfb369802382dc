"""From a VMI to libvirt's domain XML: pure, one small file per libvirt element."""
