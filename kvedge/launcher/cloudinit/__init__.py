"""cloud-init data: from a VMI's volume to the documents, and from those to the ISO image that the guest reads."""
