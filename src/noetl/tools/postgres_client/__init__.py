"""How `kind: postgres` works. Only a call imports this: a playbook can be validated without the driver.

call        one call from its inputs to its outcome, and its cancellation
conninfo    the connection string of a credential
hosts       connection strings with checked addresses
pool        connections shared by calls
session     statements on one connection, and transactions
jobs        the work of a call: statements, or rows to copy
literals    values as SQL literals
loaders     values of results
row_buffer  rows of a result, up to a limit
ledger      exactly once
errors      failures in place of errors of the server and the driver
"""
