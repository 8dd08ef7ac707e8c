"""The promises tried on Instep and on other libraries: one file a library, see `task.py`."""
