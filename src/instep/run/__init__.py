"""What makes a run last: its description, its folder, its history, its checkpoints, how it is resumed."""
