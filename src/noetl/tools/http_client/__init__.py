"""How `kind: http` makes its request. Only a call imports this: `noetl validate` reads the inputs and makes none."""
