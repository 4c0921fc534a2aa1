"""The chunk map in sentences, as a table and as code; `assets/chunks.js` says the same."""

from math import floor, prod

from labsupport.chunklab.sieve import SIEVE_BYTES
from labsupport.figures.chunk_model import FORMATS
from labsupport.figures.words import byte_text, count, number, tuple_text

__all__ = ["box_text", "chunk_code", "chunk_reason", "chunk_table", "chunk_words", "layout_name", "shards_of", "times"]

NAMES = "AB"


def times(a, b):
    """Return how many times `b` goes into `a`: "1.0 ×", "36,450 ×", with a no-break space; one decimal below 100."""
    if b == 0:
        return "0\u00a0×"
    tenths = floor(a / b * 10 + 0.5)
    return f"{tenths // 10}.{tenths % 10}\u00a0×" if tenths < 1000 else f"{number(floor(a / b + 0.5))}\u00a0×"


def box_text(shape, box):
    """Return the box as it is written in brackets: "[7, :, 0:32:2]"."""
    parts = []
    for n, (start, stop, step) in zip(shape, box):
        if stop - start == 1:
            parts.append(str(start))
        elif (start, stop, step) == (0, n, 1):
            parts.append(":")
        else:
            parts.append(f"{start}:{stop}" + (f":{step}" if step > 1 else ""))
    return f"[{', '.join(parts)}]"


def layout_name(layout):
    """Return a layout in a few words: "HDF5, compressed, chunks (32, 128, 128)"."""
    words = FORMATS[layout["format"]]
    if layout["format"] == "contiguous":
        return words
    words += f", chunks {tuple_text(layout['chunks'])}"
    return words + (f" in shards {tuple_text(shards_of(layout))}" if layout["format"] == "sharded" else "")


def shards_of(layout):
    """Return the shape of a shard in elements."""
    return [c * p for c, p in zip(layout["chunks"], layout["per"])]


def is_secret(state):
    """Return whether the numbers are to be predicted first."""
    return bool(state["predict"] and not state["revealed"])


def _reads(model, cost, name):
    wanted = model["wanted_bytes"]
    if cost["total"] == 0:
        return f"{name} reads these bytes alone, in {count(cost['requests'], 'piece')}: {times(cost['read'], wanted)}."
    if cost["direct"]:
        return f"{name} touches {_touches(cost)} and reads only what is wanted of them: {times(wanted, wanted)}."
    return (
        f"{name} touches {_touches(cost)} and decodes {byte_text(cost['decoded'])}: {times(cost['decoded'], wanted)}."
    )


def _touches(cost):
    return f"{number(cost['count'])} of {count(cost['total'], 'chunk')}"


def _notes(source, state, layout, cost, name):
    """Return what else is to be known of one layout: padding, shards, read-ahead, stored bytes."""
    words = []
    if cost["padding"]:
        lie = "lies" if cost["padding"] == 1 else "lie"
        outside = f"{byte_text(cost['padding'])} of what is decoded {lie} outside the array"
        words.append(f"{outside}: the last chunk of an axis is stored whole.")
    if layout["format"] == "sharded":
        index = f"an index of {count(cost['index_bytes'], 'byte')} each"
        whole = f"; {number(cost['whole'])} wanted whole, in one request each" if cost["whole"] else ""
        words.append(
            f"Its chunks lie in {count(cost['shards'], 'shard')}, with {index}{whole}: "
            f"{count(cost['requests'], 'request')}."
        )
    if cost["sieve"]:
        reads, read = cost["sieve"]
        ahead = f"The default driver reads ahead by up to {number(SIEVE_BYTES)} bytes"
        words.append(f"{ahead}: {count(reads, 'read')}, {byte_text(read)}.")
    if cost["direct"]:
        words.append("A chunk without a filter that does not fit the cache is read in pieces.")
    if cost["stored"]:
        stored, missing = cost["stored"]
        absent = f"; {number(missing)} of them were never written" if missing else ""
        words.append(f"In the file these chunks take {byte_text(stored)}{absent}.")
    return [f"{name}: {words[0]}", *words[1:]] if words else []


def _last_read(source, state, model):
    """Return the last read of the history in one sentence, so that pressing Read is answered."""
    if not state["history"] or model["replay"] is None:
        return []
    parts = (f"{name}: {_row(o, rows[-1])}" for o, rows, name in zip(state["layouts"], model["replay"], NAMES))
    return [f"Read {len(state['history'])}, {box_text(source['shape'], state['history'][-1])}: {'; '.join(parts)}."]


def _replayed(state, model):
    """Return the history in sentences, one for each layout."""
    reads = len(state["history"])
    if not reads:
        return []
    if model["replay"] is None:
        visit = count(reads, "read of the history visits", "reads of the history visit")
        return [f"The {visit} too many chunks to be played here."]
    words = []
    for layout, rows, name in zip(state["layouts"], model["replay"], NAMES):
        found, missed, gone, read = (sum(row[k] for row in rows) for k in range(4))
        start = f"{count(reads, 'read')} so far, {name}:"
        if layout["format"] == "contiguous":
            words.append(f"{start} {byte_text(read)}.")
        elif layout["format"] in ("zarr", "sharded"):
            words.append(
                f"{start} {count(missed, 'chunk')} decoded, {byte_text(read)}; zarr-python keeps none of them."
            )
        else:
            words.append(
                f"{start} {count(found, 'hit')}, {count(missed, 'chunk')} decoded, {number(gone)} evicted, "
                f"{byte_text(read)}."
            )
    return words


def _cache_words(state):
    if not any(layout["format"] in ("hdf5", "raw") for layout in state["layouts"][: 1 + state["compare"]]):
        return []
    if not state["cache"]:
        return ["The chunk cache is off (rdcc_nbytes=0)."]
    return [f"Chunk cache: rdcc_nbytes={state['cache_bytes']}, rdcc_nslots={state['cache_slots']}."]


def chunk_words(source, state, model):
    """Return the picture in sentences: `walk` (the selection and its cost), `summary` (the rest) and `alt` (both)."""
    shape, box = source["shape"], model["box"]
    wants = f"{source['name']}{box_text(shape, box)} wants {byte_text(model['wanted_bytes'])}."
    shown = list(zip(state["layouts"], model["layouts"], NAMES))
    walk = " ".join([wants, *(_reads(model, cost, name) for _, cost, name in shown), *_last_read(source, state, model)])
    words = [
        f"Shape {tuple_text(shape)}, {source['dtype']}, {byte_text(prod(shape) * source['itemsize'])}.",
        *(f"{name} is {layout_name(layout)}." for layout, _, name in shown),
    ]
    if is_secret(state):
        walk = f"{wants} How many chunks does A touch? Type it, then press Check."
    else:
        for layout, cost, name in shown:
            words += _notes(source, state, layout, cost, name)
        words += [*_cache_words(state), *_replayed(state, model)]
    summary = " ".join(words)
    return {"walk": walk, "summary": summary, "alt": f"Chunk map. {summary} {walk}"}


def chunk_table(source, state, model):
    """Return the same numbers as rows of texts: a heading, then one row for each quantity; empty while predicting."""
    if is_secret(state):
        return []
    shown = list(zip(state["layouts"], model["layouts"]))
    rows = [
        ["", *NAMES[: len(shown)]],
        ["layout", *(layout_name(layout) for layout, _ in shown)],
        ["bytes wanted", *(number(model["wanted_bytes"]) for _ in shown)],
        ["chunks touched", *(_touches(c) if c["total"] else "no chunks" for _, c in shown)],
        ["bytes decoded", *(number(c["decoded"]) for _, c in shown)],
        ["of them outside the array", *(number(c["padding"]) for _, c in shown)],
        ["decoded per byte wanted", *(times(c["decoded"], model["wanted_bytes"]) for _, c in shown)],
        ["bytes read, stored raw", *(number(c["read"]) for _, c in shown)],
        ["requests", *("in pieces" if c["requests"] is None else number(c["requests"]) for _, c in shown)],
        ["files of the array", *(number(c["objects"]) for _, c in shown)],
    ]
    for k, box in enumerate(state["history"] if model["replay"] else []):
        words = [_row(layout, rows_[k]) for (layout, _), rows_ in zip(shown, model["replay"])]
        rows.append([f"read {k + 1}: {box_text(source['shape'], box)}", *words])
    return rows


def _row(layout, row):
    found, missed, gone, read = row
    if layout["format"] in ("hdf5", "raw"):
        hits = f"{count(found, 'hit')}, {count(missed, 'miss', 'misses')}"
        return f"{hits}, {number(gone)} evicted, {byte_text(read)}"
    return byte_text(read) if layout["format"] == "contiguous" else f"{number(missed)} decoded, {byte_text(read)}"


def chunk_code(source, state, model):
    """Return code that makes the layouts shown and reads the selection."""
    name, box = source["name"], box_text(source["shape"], model["box"])
    lines = []
    for layout, letter in zip(state["layouts"][: len(model["layouts"])], "ab"):
        chunks = tuple_text(layout["chunks"])
        if layout["format"] in ("zarr", "sharded"):
            shards = f", shards={tuple_text(shards_of(layout))}" if layout["format"] == "sharded" else ""
            lines.append(f'zarr.create_array("{letter}.zarr", data={name}, chunks={chunks}{shards})')
            lines.append(f'zarr.open_array("{letter}.zarr", mode="r"){box}')
            continue
        more = {"hdf5": f', chunks={chunks}, compression="gzip"', "raw": f", chunks={chunks}", "contiguous": ""}
        kept = f"rdcc_nbytes={state['cache_bytes'] if state['cache'] else 0}, rdcc_nslots={state['cache_slots']}"
        cache = "" if layout["format"] == "contiguous" else f", {kept}"
        lines.append(f'with h5py.File("{letter}.h5", "w") as f:')
        lines.append(f'    f.create_dataset("{name}", data={name}{more[layout["format"]]})')
        lines.append(f'with h5py.File("{letter}.h5"{cache}) as f:')
        lines.append(f'    f["{name}"]{box}')
    return "\n".join(lines)


def chunk_reason(source, state, model, answer):
    """Return what is wrong with a predicted number of touched chunks, in one sentence; "" when it is right."""
    cost, layout, box = model["layouts"][0], state["layouts"][0], model["box"]
    if answer == cost["count"]:
        return ""
    wanted = [-(-(stop - start) // step) for start, stop, step in box]
    ceils = prod(-(-n // c) for n, c in zip(wanted, layout["chunks"]))
    beliefs = [
        (sum(cost["touched"]), "The chunks of the axes multiply: rows of chunks times columns of chunks."),
        (ceils, "That is the size divided by the chunk. Where the selection starts counts: it may cross an edge more."),
        (prod(wanted), "That counts elements. A chunk holds many of them."),
        (model["wanted_bytes"], "That counts bytes wanted. The question is for chunks."),
        (cost["decoded"], "That counts bytes decoded. The question is for chunks."),
        (cost["total"], "That is every chunk of the array."),
        (prod(t + 1 for t in cost["touched"]), "One too many along each axis: the stop is not read any more."),
    ]
    for value, reason in beliefs:
        if answer == value:
            return reason
    for skipped in range(len(wanted)):
        if answer == prod(t for k, t in enumerate(cost["touched"]) if k != skipped):
            return (
                f"Axis {skipped} counts too: the selection crosses {count(cost['touched'][skipped], 'chunk')} along it."
            )
    if answer > cost["total"]:
        return f"The array has only {count(cost['total'], 'chunk')}."
    low = "few" if answer < cost["count"] else "many"
    return (
        f"Too {low}. For each axis: the chunk of the last index, minus the chunk of the first, plus 1; then multiply."
    )
