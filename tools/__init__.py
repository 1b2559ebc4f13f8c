"""Programs for people who work on noetl."""
