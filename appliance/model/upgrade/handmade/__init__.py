"""What kubeadm renders, and how a cluster differs from it: static pods and add-ons, as data.

What must not be here: the rest of an upgrade (:mod:`appliance.model.upgrade`).
"""
