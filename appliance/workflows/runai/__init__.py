"""Commands about Run:ai."""
