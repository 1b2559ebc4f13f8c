"""The implementation of `kind: postgres`. Only a call imports it: a playbook can be validated without the driver."""
