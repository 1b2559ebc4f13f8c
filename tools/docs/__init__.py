"""Makes the generated part of the documentation: `make docs`."""
