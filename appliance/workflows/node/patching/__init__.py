"""What `node patch` looks at, and the services that it leaves as it found them."""
