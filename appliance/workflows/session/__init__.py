"""What every workflow shares: ports, the look at the site, records and patience."""
