"""From a source and a position to batches on the device, here or in worker processes."""
