"""The processes in which `kind: python` runs code: `pool.py` is the engine's end, `inside` what a child runs.

A child belongs to one lane: one execution, one set of credentials, one sandbox. What code leaves in modules never
reaches another lane. A child runs one call at a time; calls without a free child wait in the engine, so a call is
either waiting (cancelling removes it) or in exactly one child (cancelling kills that child), and the end of a child
fails exactly one call.

Each child has three channels to the engine: a socket for calls and responses, and pipes as its file descriptors 1 and
2, so that output of C code and of other programs is received too.
"""
