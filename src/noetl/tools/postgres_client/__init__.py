"""How `kind: postgres` works. Only a call imports this: a playbook can be validated without the driver.

call        one call from its inputs to its outcome, and its cancellation
conninfo    the connection string of a credential, with checked addresses
pool        connections shared by calls
session     statements on one connection, and transactions
jobs        the work of a call: statements, or rows to copy
literals    values as SQL literals
results     values and rows of results
ledger      exactly once
errors      failures in place of errors of the server and the driver
"""
