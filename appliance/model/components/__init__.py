"""What a site may have: one folder for each component.

A component has its steps with their post-conditions, its checks and its role variables.
Components do not import each other.
"""
