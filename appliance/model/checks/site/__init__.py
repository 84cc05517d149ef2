"""Everything that is checked in the site files before a node is asked."""
