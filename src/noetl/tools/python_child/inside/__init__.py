"""The code of the zygote and of the children. Loaded there file by file: nothing here imports noetl."""
