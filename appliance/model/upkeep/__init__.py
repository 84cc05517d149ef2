"""What keeps an appliance in shape: what ends on a day, and what may be removed from disks."""
