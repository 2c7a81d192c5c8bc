"""Accuracy tools: compare two runs, operator by operator. docs/accuracy.md."""
