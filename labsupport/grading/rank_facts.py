"""What a child says about ranks, checked: nothing in it may make comparing or printing it fail.

Each function returns the part of a fact that is of its proper type and size, or `...` when there is none.
"""

__all__ = ["changed", "collectives", "files"]

_MOST_RANKS, _MOST, _LONGEST = 16, 200, 200


def changed(value):
    """Return which inputs were changed: a tuple of indices, or one such tuple per rank."""
    if type(value) not in (tuple, list) or len(value) > _MOST:
        return ...
    if any(type(item) in (tuple, list) for item in value):
        return tuple(_numbers(item) for item in value[:_MOST_RANKS])
    return _numbers(value)


def collectives(value):
    """Return per rank (operation, how often) pairs."""
    if type(value) not in (tuple, list) or len(value) > _MOST_RANKS:
        return ...
    return tuple(_counts(of_rank) for of_rank in value)


def files(value):
    """Return {file: ranks that wrote it}."""
    if type(value) is not dict or len(value) > _MOST:
        return ...
    return {name[:_LONGEST]: _numbers(ranks) for name, ranks in value.items() if type(name) is str}


def _numbers(value):
    if type(value) not in (tuple, list) or len(value) > _MOST:
        return ()
    return tuple(number for number in value if type(number) is int and 0 <= number < 100)


def _counts(value):
    if type(value) not in (tuple, list) or len(value) > _MOST:
        return ()
    pairs = (tuple(pair) for pair in value if type(pair) in (tuple, list) and len(pair) == 2)
    return tuple((op[:_LONGEST], n) for op, n in pairs if type(op) is str and type(n) is int and 0 <= n < 1 << 40)
