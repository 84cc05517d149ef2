"""What a restore of databases is planned by, and the inventory of the plays; no act of one."""
