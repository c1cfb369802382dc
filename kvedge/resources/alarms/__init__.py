"""Alarms: the one table of rules, how alarms are raised and cleared, and where they are kept."""
