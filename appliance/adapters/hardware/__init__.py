"""BMCs and the hardware models that ship with the product."""
