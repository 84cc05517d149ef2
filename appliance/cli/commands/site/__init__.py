"""``appliance site``, and the choice of the site for every command."""
