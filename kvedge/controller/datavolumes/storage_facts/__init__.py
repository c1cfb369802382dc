"""What DataVolumes may count on: what provisioners can do, StorageProfiles, the CDIConfig and DataSources."""
