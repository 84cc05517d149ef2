"""Look at what fills the disks of nodes and of this machine, and remove what may go."""
