"""The HTTP door: serves the planner and the page of the designer.

Handlers parse, call ``planner`` and answer; nothing here computes a plan.
"""
