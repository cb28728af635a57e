"""Nouns: frozen values that every stage of the path takes and gives. Standard library only."""
