"""One implementation of the kinds gcs, s3 and object, through obstore, which is imported by the first call."""
