"""`virsh` in the launcher's container: what people look for there, answered by the launcher; nothing is changed."""
