"""The doctor: watches anybody's training loop and names its mistakes.

`hub` hears what torch does (`patches`, `hooks`), observers in `watch/` put what they saw into the `trace`, rules in `rules/` read
findings from it, the `engine` says each once. How to add one: see `rules/__init__.py`.
"""
