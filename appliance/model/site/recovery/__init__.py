"""What a site says of its backups, and of the restore that proves a snapshot."""
