"""A release: its versions, its sources, and which versions Run:ai supports."""
