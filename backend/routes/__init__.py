"""One file per resource; handlers parse, call ``planner`` and answer."""
