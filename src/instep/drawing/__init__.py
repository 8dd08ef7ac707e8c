"""Charts, described once (`chart`) and drawn as SVG for files and notebooks (`svg`) or by matplotlib (`figure`); HTML tables."""
