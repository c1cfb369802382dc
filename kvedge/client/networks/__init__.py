"""Networks besides the Pod network: what there is, which VMs are on them, making and removing them."""
