"""Tools whose results are artifacts of any size."""
