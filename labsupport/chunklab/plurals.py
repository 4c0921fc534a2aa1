"""One and many: small enough for every module here, also where only this folder is at hand."""

__all__ = ["plural"]


def plural(count, noun, many=None):
    """Return "1 chunk", "2,000 chunks"; the plural of `noun` is `many`, or has an s."""
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"
