"""The autograd graph, drawn: a tree for the terminal, SVG, DOT, Mermaid, and a page of HTML."""
