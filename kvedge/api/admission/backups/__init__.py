"""Rules of backups: whether a repository, a backup or its way back may enter."""
