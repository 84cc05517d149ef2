"""``appliance hardware``: the models of servers, and the machines compared with them."""
