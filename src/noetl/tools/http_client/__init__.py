"""How `kind: http` makes its request. Only a call imports this: `noetl validate` reads the inputs and makes none.

credential.py   what the keychain gives becomes a header or a parameter
request.py      the inputs become a request
client.py       a pooled client for its TLS options
network.py      connections, away from the addresses that `noetl/addresses.py` forbids
exchange.py     the request is sent and redirects are followed
answer.py       what comes back becomes an outcome
unanswered.py   so does what breaks off
veil.py         texts for people carry neither a credential nor the query of an address
call.py         all of it, in order
"""
