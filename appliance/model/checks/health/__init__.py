"""The checks of a running appliance, and before Run:ai is installed."""
