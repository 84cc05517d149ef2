"""``cluster restore --only``: one thing of a cluster that lives, each in a module of its own."""
