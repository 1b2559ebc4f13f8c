"""The processes in which `kind: python` runs code.

    engine                               child (one per lane, or several)
    pool.py    which child runs what     inside/program.py  runs one call at a time
    child.py   one child, as seen from   inside/plain.py    what a result may hold
               the engine

How children are forked, watched and killed is the business of `noetl.tools.process`.

A child belongs to one lane for life: one execution, one set of credentials, one sandbox. What code leaves behind in
modules never reaches another lane. A child runs one call at a time; calls that find no free child wait in the engine,
so a call is either waiting (cancelling forgets it) or in exactly one child (cancelling kills that child), and the death
of a child has exactly one victim.

Each child has three lines to the engine: a socket for calls and answers, and pipes as its real file descriptors 1
and 2, so that output of C code and of other programs arrives too.
"""
