"""Speed and memory of the transplant tool on a generated project."""
