"""How `kind: postgres` works; imported by a call only, since the driver is not needed to validate a playbook.

call       one call from its inputs to its outcome, and how it is stopped
target     where to connect to, from a credential
pool       connections that are kept between calls
session    statements on one connection, and transactions
jobs       what a call does: statements, or rows to copy
literals   values on their way into SQL
loaders    values on their way out of results
gathering  rows of a result, with a limit
ledger     exactly once
faults     what the server or the driver complains about, as an error outcome
"""
