"""How `kind: http` makes its request. Only a call imports this: `noetl validate` reads the inputs and makes none.

credential.py   a credential as a header or a query parameter
request.py      the inputs as a request
client.py       a pooled client for the TLS options
network.py      connections that avoid the addresses forbidden by `noetl/addresses.py`
send.py         sends the request and follows redirects
redaction.py    hides credentials and query strings in messages
response.py     the response as an outcome
call.py         all of it, in order
"""
