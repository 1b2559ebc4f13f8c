"""Child processes: how they are started, confined, watched and ended. `shell`, `script` and `python` share it.

    engine                               zygote                       child
    program.py   one program, to its end inside/zygote.py             inside/supervisor.py  runs one program, or
    launcher.py  one zygote              forks, kills and buries      python_child/inside   runs python calls
    output.py    lines and what is kept  children

The zygote is a bare interpreter that does nothing but fork, so a child costs a millisecond or two instead of a start
of Python. It has one socket to the engine. When that closes, whatever the engine died of, it kills everything it ever
forked and ends.

Nothing escapes. A child is a subreaper: a process that has left its group and session, or whose parent has died, is
still below it (`inside/descent.py`). To end a child, everything below it is stopped first, so that nothing can fork any
more, and then killed. What is orphaned all the same falls to the zygote, which is a subreaper too. Only the zygote and
the supervisors wait for processes, so a process id can't have been taken over by someone else in between.

No limit of the kernel counts the processes of one call (RLIMIT_NPROC counts those of a user, and not of root) or sums
their memory, and control groups need rights that a worker seldom has. So both are looked at twenty times a second, and
whoever has too much is ended. What can be limited for each process alone is (`inside/confine.py`).

`inside` never imports noetl: small files and a few modules of the standard library are all that a child has to load.
"""
