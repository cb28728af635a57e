"""Verb: cut a model into the stages of a pipeline. The result is a graph like any other."""

from .balance import Unit, decided, unit_names, units
from .place import Places, place
from .stage import stage

__all__ = ["Places", "Unit", "decided", "place", "stage", "unit_names", "units"]
