"""A scenario on a local page: sliders for the numbers that matter, an answer to every move."""
