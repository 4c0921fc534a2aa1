"""Processes: preload once, fork many, limit, reap. Importing this loads nothing else.

`zygote.Zygote` is the one to use: a server with libraries preloaded that forks a process for each request. `limits`
and `groups` say what a process may use, `reaping` ends whole trees, `kernel` holds the calls Python lacks.
"""
