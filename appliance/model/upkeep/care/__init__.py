"""What may be removed from disks that fill, and when a disk will be full."""
