"""The same playbooks in every mode in which noetl runs."""
