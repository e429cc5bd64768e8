"""What can be audited: one file for each kind of target."""
