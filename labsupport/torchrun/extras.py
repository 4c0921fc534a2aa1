"""What the magic's own flags do on a rank, before the script runs and after it: --push, --kill, --trace, --return."""

__all__ = ["hooks"]


def hooks():
    """Return {"begin": ..., "finish": ...} for a `bootstrap.Place`."""
    return {"begin": _begin, "finish": _finish}


def _begin(place, namespace):
    from labsupport.torchrun import killing

    pushed = place.job / "pushed"
    if pushed.exists():
        from labsupport.torchrun import pushing

        pushing.receive(pushed.read_bytes(), namespace)
    if place.options.get("trace"):
        from labsupport.torchrun import tracing

        tracing.begin(place)
    killing.arm(place)


def _finish(place, namespace, failed):
    if place.options.get("trace"):
        from labsupport.torchrun import tracing

        tracing.finish(place)
    if place.options.get("returns"):
        from labsupport.torchrun import values

        wanted = values.parse_returns(place.options["returns"])
        world = int(place.environ["WORLD_SIZE"])
        values.give(wanted, namespace, place.folder, rank=place.rank, world=world, failed=failed)
