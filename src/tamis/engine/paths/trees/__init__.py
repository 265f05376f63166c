"""Ranges lead to cubes in trees."""
