"""What every component is made of. What must not be here: any one component."""
