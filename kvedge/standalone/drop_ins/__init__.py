"""The drop-in directories of one box: what is put into `images` and `manifests` comes in by itself."""
