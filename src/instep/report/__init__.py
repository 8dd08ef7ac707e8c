"""How a run is shown: its plan, its progress, its folder. Knows records and history only."""
