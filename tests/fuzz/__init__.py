"""What comes from outside, changed at random: no traceback, and no change outside the site."""
