"""The crash proof: kill the engine at every await of its shell, resume, and nothing accepted is lost or redone."""
