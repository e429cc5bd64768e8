"""What each remedy buys on a user's own prompts and machine, and what it costs."""
