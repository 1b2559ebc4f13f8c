"""The crash proof: kill the engine at every await of its shell, resume, and nothing that was accepted is lost or redone."""
