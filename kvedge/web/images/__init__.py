"""The page of images: DataVolumes and DataSources, and uploads through the console."""
