"""How the predictions of lesson 15 are answered: by gloo itself, with one thread per rank instead of a process."""

import threading
from datetime import timedelta

from labsupport.course import Case

__all__ = ["instead", "on_ranks", "questions"]

_HANG_GUARD_S = 20


def questions(*texts):
    """Return one case per question of a prediction: its label is the code."""
    return tuple(Case(text, lambda rng, text=text: (text,)) for text in texts)


def instead(reference, wrong):
    """Return a specimen of a prediction: the value in `wrong` for the questions it names, else what is right."""
    return lambda question: wrong[question] if question in wrong else reference(question)


def on_ranks(n_ranks, work):
    """Return [work(rank, group) of each rank]: real gloo groups in threads, which need no process and no default group.

    Raises:
        Exception: what the first rank that failed raised.
    """
    import torch.distributed as dist  # a second; only who asks a question pays for it

    store, results = dist.HashStore(), [None] * n_ranks

    def run(rank):
        try:
            results[rank] = work(rank, _group(dist, store, rank, n_ranks)), None
        except Exception as error:
            results[rank] = None, error

    threads = [threading.Thread(target=run, args=(rank,), daemon=True) for rank in range(n_ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(_HANG_GUARD_S)
    failed = [result[1] if result else TimeoutError("a rank did not end") for result in results]
    if error := next(filter(None, failed), None):
        raise error
    return [value for value, _ in results]


def _group(dist, store, rank, n_ranks):
    gloo = dist.ProcessGroupGloo
    options = gloo._Options()  # the public class has no way to name the loopback device
    options._timeout = timedelta(seconds=_HANG_GUARD_S)
    options._devices = [gloo.create_device(hostname="127.0.0.1")]
    return gloo(store, rank, n_ranks, options)
