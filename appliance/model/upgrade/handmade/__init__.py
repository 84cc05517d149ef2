"""What kubeadm renders, and how a cluster differs from it: static pods and add-ons, as data.

What must not be here: what that means for an upgrade (:mod:`appliance.model.upgrade.losses`).
"""
