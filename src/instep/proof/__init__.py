"""The promises checked on a user's own run, and any step of a run replayed."""
