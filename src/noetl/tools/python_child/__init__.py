"""The processes in which `kind: python` runs code.

    engine                              zygote                      child (one per execution, or several)
    pool.py      which child runs what  inside/zygote.py            inside/program.py  runs one call at a time
    child.py     one child, as seen     forks, kills and buries     inside/plain.py    what a result may hold
                 from the engine        children
    launcher.py  one zygote, likewise

The zygote is a bare interpreter that does nothing but fork, so a clean child costs a millisecond or two instead of
a start of Python. It has one socket to the engine. When that closes, whatever the engine died of, it kills everything
it ever forked and ends.

A child belongs to one execution for life: what code leaves behind in modules never reaches another execution. It runs
one call at a time; calls that find no free child wait in the engine, so a call is either waiting (cancelling forgets
it) or in exactly one child (cancelling kills that child), and the death of a child has exactly one victim.

Killing is complete. A child leads a session and a process group of its own, which dies as a whole; a process that
left the group is orphaned by that, falls to the zygote (a subreaper) and is killed there. Only the zygote kills and
only the zygote waits, so a process id can't have been taken over by someone else in between. Should the zygote itself
be killed, its children die with it and the engine kills their groups; only what had left its group would survive.

Each child has three lines to the engine: a socket for calls and answers, and pipes as its real file descriptors 1
and 2, so that output of C code and of other programs arrives too. `inside` never imports noetl: three small files and
a few modules of the standard library are all that a child has to load.
"""
