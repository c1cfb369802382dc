"""DataVolumes and what fills their claims."""
