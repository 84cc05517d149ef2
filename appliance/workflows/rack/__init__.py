"""Takes a whole rack down and up: in the order of :mod:`appliance.model.plan.rack.order`."""
