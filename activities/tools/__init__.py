"""One file per tool: a function marked `@tool` in a file of this folder is found without registration."""
