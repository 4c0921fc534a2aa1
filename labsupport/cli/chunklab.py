"""lab chunklab: count what reads of HDF5 and Zarr take, copy into other chunks, and advise on chunk shapes."""

import re

from labsupport.errors import UsageError

_UNITS = {"": 1, "b": 1, "k": 10**3, "kb": 10**3, "kib": 1 << 10, "m": 10**6, "mb": 10**6, "mib": 1 << 20}
_UNITS |= {"g": 10**9, "gb": 10**9, "gib": 1 << 30}


def add_arguments(parser):
    tasks = parser.add_subparsers(dest="task", required=True, metavar="TASK")
    _inspect(tasks.add_parser("inspect", help="list the arrays of a file, store or URL and how they are laid out"))
    _count(tasks.add_parser("count", help="read a selection and count chunks, requests and bytes"))
    _rechunk(tasks.add_parser("rechunk", help="copy into other chunks, between HDF5 and Zarr, under a memory budget"))
    _advise(tasks.add_parser("advise", help="find a chunk shape for a set of access patterns, and count what it costs"))


def _inspect(parser):
    parser.add_argument("where", help="an .h5 file, a .zarr folder, a .zip of one, or a URL that fsspec knows")
    parser.add_argument("name", nargs="?", help="one array; all when left out")


def _count(parser):
    parser._negative_number_matcher = re.compile(r"-\d")  # "-5:" is a selection and no option
    parser.add_argument("where", help="as for inspect")
    parser.add_argument("selection", help="as in brackets: '0, :, 10:20' or '[1, 5], ...'")
    parser.add_argument("--name", help="the array, where there are several")
    parser.add_argument("--points", action="store_true", help="pair the lists as coordinates (Zarr's vindex)")
    parser.add_argument("--cache", type=_bytes, help="HDF5's chunk cache, such as 1MiB; 8MiB unless said")
    parser.add_argument("--kernel", action="store_true", help="also ask the kernel what it saw (Linux, local files)")


def _rechunk(parser):
    parser.add_argument("source", help="an HDF5 file, a Zarr store or a URL, as for inspect")
    parser.add_argument("target", help="a name ending in .h5 for HDF5; anything else is Zarr")
    parser.add_argument("--name", help="copy one array alone")
    parser.add_argument("--chunks", action="append", default=[], metavar="[ARRAY=]SIZES", help="such as 1,64,64")
    parser.add_argument(
        "--shards", action="append", default=[], metavar="[ARRAY=]SIZES", help="of Zarr, such as 64,64,64"
    )
    parser.add_argument(
        "--memory", type=_bytes, default=256 << 20, help="for the data held at once; 256MiB unless said"
    )
    parser.add_argument("--plain", action="store_true", help="do not compress")
    parser.add_argument("--zarr-format", type=int, choices=(2, 3), default=3, help="of a Zarr target; 3 unless said")
    parser.add_argument("--overwrite", action="store_true", help="replace what is at the target")


def _advise(parser):
    parser.add_argument("where", nargs="?", help="take shape and type from this file, store or URL")
    parser.add_argument("--name", help="the array, where there are several")
    parser.add_argument("--shape", help="such as 1024,128,128, where there is no file")
    parser.add_argument("--dtype", default="float32", help="where there is no file; float32 unless said")
    parser.add_argument(
        "--pattern", action="append", default=[], metavar="NAME=SIZES[@WEIGHT]", help="a read: 'one image=1,:,:@5'"
    )
    parser.add_argument("--format", choices=("zarr", "hdf5"), help="the file's own unless said; zarr without a file")
    parser.add_argument(
        "--sample",
        type=_bytes,
        default=32 << 20,
        help="bytes to write and read for counting; 32MiB unless said, 0: none",
    )


def run(args):
    """Return 0; 1 where something was counted that arithmetic did not say."""
    return {"inspect": _run_inspect, "count": _run_count, "rechunk": _run_rechunk, "advise": _run_advise}[args.task](
        args
    )


def _run_inspect(args):
    from labsupport.chunklab import inspect

    print(inspect(args.where, args.name))
    return 0


def _run_count(args):
    from labsupport.chunklab import count, kernel_count, parse
    from labsupport.chunklab.plurals import plural

    selection = parse(args.selection)
    indexing = "points" if args.points else "outer"
    found = count(args.where, selection, args.name, indexing=indexing, cache_bytes=args.cache)
    print(found)
    if args.kernel:
        if args.points:
            raise UsageError("--kernel reads by outer indexing", next_step="leave out --points")
        name = found.selection.partition("[")[0] if found.layout.format == "HDF5" else args.name
        more = {} if args.cache is None else {"cache_bytes": args.cache}
        seen = kernel_count(args.where, selection, name, **more)
        print(f"  kernel:    {plural(seen.reads, 'read')}, {plural(seen.bytes, 'byte')} by a fresh process")
    return 0 if found.as_predicted else 1


def _run_rechunk(args):
    from labsupport.chunklab import rechunk

    done = rechunk(
        args.source,
        args.target,
        _by_array(args.chunks, "chunks"),
        args.memory,
        name=args.name,
        shards=_by_array(args.shards, "shards"),
        compress=not args.plain,
        zarr_format=args.zarr_format,
        overwrite=args.overwrite,
        progress=_progress(),
    )
    print(done)
    return 0


def _run_advise(args):
    from labsupport.chunklab import advise, layout_of, open_source
    from labsupport.chunklab.patterns import parse_pattern

    parsed = [parse_pattern(text) for text in args.pattern]
    patterns = {name: extents for name, extents, _ in parsed}
    weights = {name: weight for name, _, weight in parsed}
    shape, dtype, current = args.shape and _sizes(args.shape, "--shape"), args.dtype, None
    format = args.format or "zarr"
    if args.where is not None:
        if args.shape:
            raise UsageError("a file and --shape", why="the file says its shape", next_step="leave out one of them")
        with open_source(args.where, args.name) as source:
            layout = layout_of(source.array)
            shape, dtype = layout.shape, source.array.dtype
            format = args.format or ("hdf5" if source.kind == "HDF5" else "zarr")
            current = (layout.chunks, layout.shards) if layout.chunks else None
    if shape is None:
        raise UsageError("nothing says the shape", next_step="name a file, or give --shape 1024,128,128")
    advice = advise(shape, dtype, patterns, weights=weights, format=format, sample_bytes=args.sample, current=current)
    print(advice)
    return 0 if advice.as_predicted else 1


def _by_array(given, what):
    """Return None, one shape, or {array: shape} of the arguments to --chunks or --shards."""
    found = {}
    for text in given:
        name, equals, sizes = text.rpartition("=")
        found[name if equals else None] = _sizes(sizes, f"--{what}")
    if None in found:
        if len(found) > 1:
            raise UsageError(f"--{what} with and without an array's name", next_step="name the array in each")
        return found[None]
    return found or None


def _sizes(text, option):
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"{option} is {text!r}", why="whole numbers with commas are needed: 1,64,64") from None


def _bytes(text):
    number = text.strip().lower()
    unit = number.lstrip("0123456789._")
    try:
        return int(float(number.removesuffix(unit)) * _UNITS[unit.strip()])
    except (ValueError, KeyError):
        raise UsageError(f"{text!r} is not a number of bytes", next_step="write 500000, 64MB or 64MiB") from None


def _progress():
    """Return a function that keeps one line up to date on a terminal, or None where there is none."""
    import sys

    if not sys.stderr.isatty():
        return None

    def show(name, done, total):
        print(f"\r{name or 'array'}: {done:,} of {total:,} slabs", end="\n" if done == total else "", file=sys.stderr)

    return show
