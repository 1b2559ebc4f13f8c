"""Child processes of `shell`, `script` and `python`: how they are started, confined, supervised and ended.

    engine                               zygote                       child
    program.py   one program, to its end inside/zygote.py             inside/supervisor.py  runs one program, or
    launcher.py  one zygote, and the     forks, kills and reaps       python_child/inside   runs python calls
                 pipes of its children   children
    output.py    lines and captures

The zygote is a bare interpreter that only forks, so a child takes a millisecond or two instead of a start of Python.
When its socket to the engine closes, for whatever reason, it kills all processes that it forked and ends.

No process escapes. A child is a subreaper: a process that has left its group and session, or whose parent has died, is
still its descendant. To end a child, all descendants are stopped first, so that none can fork, and then killed.
Remaining orphans become children of the zygote, which is a subreaper too. Only the zygote and the supervisors wait for
processes, so a process id cannot have been reused in between.

No limit of the kernel counts the processes of one call or sums their memory, and control groups need rights that a
worker seldom has. So both are checked many times a second. Limits of a single process are set in `inside/linux.py`.

`inside` never imports noetl, so that a child has little to load.
"""
