"""The launcher's Pod follows the vCPUs and the memory that its running guest is to have."""
