"""Turns a record into text for people and machines.

Pure functions; it runs no model and asks no server.
"""
