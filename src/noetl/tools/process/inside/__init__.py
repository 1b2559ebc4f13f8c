"""What runs in the zygote and in the supervisors of programs. Nothing here imports noetl."""
