"""The processes in which `kind: python` runs code: `pool.py` is the engine's end, `inside` the code of a child.

A child belongs to one lane: one execution, one set of credentials, one sandbox. What code leaves in modules never
reaches another lane. A child runs one call at a time; calls without a free child wait in the engine. So cancelling a
call removes it or kills one child, and the end of a child fails one call.
"""
