"""Code of the zygote and the supervisors. It never imports noetl."""
