"""The same work in Instep and in what people would use instead: one file a contestant, see `contestants.py`."""
