"""One changing command at a time, and the hand-over between engineers."""
