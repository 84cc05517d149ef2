"""The rehearsal of a restore in a lab that is like a site."""
