"""What tests of the lab share: faults and their matrix, what is watched, sites and issuers."""
