"""What runs in the zygote and in the children. Loaded there file by file: nothing here imports noetl."""
