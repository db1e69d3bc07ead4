"""Rewrites one file after each change that packets depend on, so that a reader can watch it instead of polling."""
import os
import time


def changed(*_args, **_kwargs):
    path = os.environ.get('OSLAB_CHANGED')
    if not path:
        return
    try:
        with open(path, 'w') as f:
            f.write(f'{time.time_ns()}\n')
    except OSError:
        pass    # a reader that polls now and then sees the change all the same
