"""What a site is: settings, groups, addresses and how its nodes are reached."""
