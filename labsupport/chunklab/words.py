"""What chunklab found, in sentences: the same words in a terminal, a notebook and the alternative text of a figure."""

from labsupport.chunklab.plurals import plural
from labsupport.showing import Message, Table

__all__ = ["layout_text", "number", "of_count", "plural", "size"]


def size(count):
    """Return bytes in words: exact to 9,999, then with three digits; 1 MB is 1,000,000 bytes."""
    if count < 10_000:
        return plural(count, "byte")
    for unit, power in (("kB", 3), ("MB", 6), ("GB", 9), ("TB", 12)):
        value = count / 10**power
        if value < 999.5 or unit == "TB":
            return f"{number(value)} {unit}"
    return ""


def number(value):
    """Return a number with three digits and separators: 1,234, 12.3, 1.00."""
    return f"{value:,.{0 if value >= 99.95 else 1 if value >= 9.995 else 2}f}"


def layout_text(layout):
    """Return a layout in one line: "HDF5, (100, 100) int32, chunks (10, 10), gzip-4"."""
    parts = [layout.format, f"{layout.shape} {layout.dtype}"]
    parts.append(layout.place if layout.chunks is None else f"chunks {layout.chunks}")
    parts += [f"shards {layout.shards}"] if layout.shards else []
    parts += [", ".join(layout.codecs) or "not compressed"]
    return ", ".join(parts)


def touched_text(seen):
    """Return what arithmetic says of a selection."""
    text = f"{seen.count:,} of {plural(seen.total, 'chunk')}, {size(seen.decoded_bytes)} decoded"
    if seen.shard_shape is not None:
        text += f", in {plural(seen.files, 'shard')}"
    return text + (f": {number(seen.amplification)} bytes for each byte wanted" if seen.wanted else "")


def of_count(found):
    """Return a `Count` as a `Message`."""
    chunked = found.layout.chunks is not None
    lines = [
        ("layout", layout_text(found.layout)),
        ("wanted", f"{plural(found.touched.wanted, 'element')}, {size(found.touched.wanted_bytes)}"),
        ("predicted", touched_text(found.touched) if chunked else _runs_text(found)),
        ("counted", _counted(found, chunked)),
        ("index", _index(found)),
        ("driver", _driver(found, chunked)),
    ]
    tone = "good" if found.as_predicted else "bad"
    return Message(f"{found.where}: {found.selection}", lines, tone)


def _runs_text(found):
    if found.runs is None:
        where = "lie in the header, read already" if found.layout.place == "compact" else "were never written"
        return f"nothing to read: the data {where}"
    return f"{plural(found.runs[0], 'run')} of neighbouring bytes, {size(found.runs[1])}"


def _counted(found, chunked):
    if not chunked:
        return f"{plural(found.reads, 'read')}, {size(found.bytes)}, over a file object"
    text = f"{plural(found.decoded, 'chunk')} read in {plural(found.reads, 'request')}, {size(found.bytes)} stored"
    if found.layout.format != "HDF5":
        text += f", from {plural(found.files, 'object')}"
    if found.missing:
        text += f"; {plural(found.missing, 'chunk')} never written: the fill value, nothing read"
    return text


def _index(found):
    if not found.index_reads:
        return ""
    what = "shard indexes" if found.layout.shards else "the file's own structures"
    return f"{plural(found.index_reads, 'read')}, {size(found.index_bytes)}: {what}"


def _driver(found, chunked):
    if found.driver_reads is None or found.runs is None:
        return ""
    return (
        f"{plural(found.driver_reads, 'read')}, {size(found.driver_bytes)} by HDF5's default driver,"
        " which reads 64 KiB ahead for every short run (sieve buffer)"
    )


def table(rows):
    """Return rows of texts as a table of a `Message`."""
    return Table(rows)


def of_rechunked(done):
    """Return a `Rechunked` as a `Message`."""
    rows = [("array", "shape", "from chunks", "written", "slabs", "source chunks decoded", "memory at most")]
    for name, plan in done.plans.items():
        again = plan.source_decodes / plan.source_total if plan.source_total else 1.0
        rows.append(
            (
                name or "(root)",
                str(plan.shape),
                str(plan.source_chunks),
                str(plan.unit),
                f"{plan.slabs:,}",
                f"{plan.source_decodes:,} ({number(again)} times each)",
                size(plan.peak_bytes),
            )
        )
    notes = [f"{array or '(root)'}: {name} {text}" for array, lost in done.notes.items() for name, text in lost.items()]
    return Message(
        f"{done.source} is copied to {done.target}", [("plan", table(rows)), ("attributes", "\n".join(notes))], "good"
    )


def of_inspection(found):
    """Return an `Inspection` as a `Message`."""
    rows = [("array", "shape", "type", "chunks", "shards", "codecs", "decoded", "stored", "ratio", "objects")]
    for each in found.arrays:
        layout = each.layout
        rows.append(
            (
                each.name or "(root)",
                str(layout.shape),
                layout.dtype,
                layout.place if layout.chunks is None else str(layout.chunks),
                str(layout.shards) if layout.shards else "",
                ", ".join(layout.codecs) or "none",
                size(layout.bytes),
                size(each.bytes),
                number(each.ratio) if each.bytes else "",
                f"{each.objects:,}",
            )
        )
    remarks = [f"{each.name or '(root)'}: {text}" for each in found.arrays for text in each.remarks()]
    kinds = sorted({each.layout.format for each in found.arrays}) or ["no arrays"]
    consolidated = ", consolidated metadata" if found.consolidated else ""
    return Message(
        f"{found.where}: {', '.join(kinds)}{consolidated}",
        [
            ("arrays", table(rows) if found.arrays else ""),
            ("opening", f"{plural(found.metadata_reads, 'read')}, {size(found.metadata_bytes)} of metadata"),
            ("remarks", "\n".join(remarks)),
        ],
    )


def of_advice(advice):
    """Return an `Advice` as a `Message`."""
    best = advice.best
    total = size(_product(advice.shape) * advice.itemsize)
    inside = f" in shards of {best.shards}" if best.shards else ""
    objects = f", {plural(best.objects, 'object')} in all" if advice.format == "zarr" else ""
    chunk = size(_product(best.chunks) * advice.itemsize)
    head = f"chunks of {best.chunks}{inside} for {advice.shape} {advice.dtype} ({total})"
    lines = [
        ("chunk", f"{chunk} decoded{objects}"),
        ("predicted", _costs(advice)),
        ("counted", _trials(advice)),
        ("instead", _alone(advice)),
    ]
    return Message(head, lines, "good" if advice.as_predicted else "bad")


def _costs(advice):
    rows = [
        ("one read", "size", "weight", "chunks", "at worst", "decoded", "per byte wanted", "objects", "index reads")
    ]
    weighed = any(pattern.weight != 1 for pattern in advice.patterns)
    for pattern, cost in zip(advice.patterns, advice.best.costs):
        rows.append(
            (
                pattern.name,
                str(pattern.extents),
                f"{pattern.weight:g}" if weighed else "",
                number(cost.chunks),
                f"{cost.worst_chunks:,}",
                size(round(cost.decoded_bytes)),
                number(cost.amplification),
                number(cost.objects) if advice.format == "zarr" else "",
                f"{number(cost.index_reads)}, {size(round(cost.index_bytes))}" if cost.index_reads else "",
            )
        )
    return table(rows)


def _trials(advice):
    if not advice.trials:
        return ""
    rows = [("one read", "selection", "chunks", "decoded", "objects", "index reads", "as predicted")]
    for trial in advice.trials:
        chunks, decoded, objects, index = trial.counted
        rows.append(
            (
                trial.pattern + (" (a part)" if trial.part else ""),
                trial.selection,
                f"{chunks:,}",
                size(decoded),
                f"{objects:,}" if advice.format == "zarr" else "",
                f"{index:,}" if advice.best.shards else "",
                "yes" if trial.as_predicted else f"no: {trial.predicted}",
            )
        )
    return table(rows)


def _alone(advice):
    others = [] if len(advice.patterns) == 1 else [(p.name, c) for p, c in zip(advice.patterns, advice.alone)]
    others += [("(as it is now)", advice.current)] if advice.current else []
    if not others:
        return ""
    rows = [("made for", "chunks", *(pattern.name for pattern in advice.patterns))]
    for label, choice in others:
        cells = (f"{number(cost.chunks)} chunks, {number(cost.amplification)}x" for cost in choice.costs)
        rows.append((label, str(choice.chunks), *cells))
    return table(rows)


def _product(numbers):
    total = 1
    for each in numbers:
        total *= each
    return total


def of_loop(found):
    """Return a `LoopCount` as a `Message`."""
    cache = "no chunk cache"
    if found.cache_bytes is not None:
        handle = "one handle for all reads" if found.kept else "a new handle for each read, with an empty cache"
        cache = f"{size(found.cache_bytes)} of chunk cache, {handle}"
    counted = f"{plural(found.decoded, 'chunk')} decoded, {size(found.bytes)} stored; {plural(found.hits, 'hit')}"
    lines = [
        ("layout", layout_text(found.layout)),
        ("cache", cache),
        ("touched", f"{plural(found.touched, 'chunk')} in {plural(found.loops, 'read')}"),
        ("predicted", f"{plural(found.predicted, 'chunk')} decoded"),
        ("counted", counted),
    ]
    return Message(f"{found.where}: {found.name or 'array'}", lines, "good" if found.as_predicted else "bad")
