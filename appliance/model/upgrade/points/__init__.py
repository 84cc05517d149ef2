"""The points that are judged before an upgrade, by what they speak of.

What must not be here: asking, or the list of all of them (:mod:`appliance.model.upgrade.gates`).
"""
