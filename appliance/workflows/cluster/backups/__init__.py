"""Parts of the workflows around backups: their ports, and how a backup is gathered."""
