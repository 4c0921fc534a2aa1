"""The command line: `python -m labsupport.loaderbench MODULE:FACTORY ...`, the same as `lab loaderbench`."""

import importlib
import importlib.util
import signal
import sys
from pathlib import Path

from labsupport.errors import LabError, UsageError

__all__ = ["add_arguments", "run", "subject_of"]

_EXAMPLES = """MODULE:FACTORY names what makes your dataset: a function or class without arguments, or a dataset itself;
FILE.py:FACTORY works, too. It may also return a dict: {"dataset": ..., "collate_fn": ..., "step": ...}."""


def add_arguments(parser):
    """Declare the arguments of the command on an `argparse` parser."""
    parser.epilog = _EXAMPLES
    parser.add_argument("dataset", nargs="?", metavar="MODULE:FACTORY", help="what makes the dataset to measure")
    parser.add_argument("--step", metavar="MODULE:FUNCTION", help="a training step, called with every batch")
    parser.add_argument("--workers", metavar="N,N", help="numbers of workers to try (default 0, 1, 2, ... by cores)")
    parser.add_argument("--batch-size", metavar="N,N", default="32", help="batch sizes to try (default 32)")
    parser.add_argument("--prefetch", metavar="N,N", default="2", help="prefetch factors to try (default 2)")
    for name, what in (("persistent", "workers that stay"), ("pin", "pinned memory"), ("batched", "__getitems__")):
        parser.add_argument(f"--{name}", choices=("yes", "no", "both"), help=f"{what}: try it, not, or both")
    parser.add_argument("--start", metavar="METHOD,..", help="start methods to try: fork, spawn, forkserver")
    parser.add_argument("--shuffle", action="store_true", help="read in random order, as a training does")
    parser.add_argument("--drop-last", action="store_true", help="leave out an incomplete last batch")
    parser.add_argument("--device", metavar="NAME", help="move batches there: cuda, mps, auto")
    parser.add_argument("--repeat", type=int, default=5, metavar="N", help="repetitions of each setting (default 5)")
    parser.add_argument("--seconds", type=float, default=60, help="roughly how long it may take (default 60)")
    parser.add_argument("--batches", type=int, metavar="N", help="batches of one run, instead of --seconds")
    parser.add_argument(
        "--deadline", type=float, default=60, metavar="S", help="seconds after which a batch counts as hung"
    )
    parser.add_argument("--out", metavar="FILE", help="keep the report as JSON")
    parser.add_argument(
        "--record", metavar="FILE", help="keep one recorded run of the recommended setting, for a timeline"
    )
    parser.add_argument(
        "--compare", nargs=2, metavar=("BEFORE", "AFTER"), help="compare two kept reports; runs nothing"
    )


def run(args):
    """Do what the arguments say; return 0."""
    if args.compare:
        from labsupport.loaderbench import Report, compare

        print(compare(*map(Report.load, args.compare)).text())
        return 0
    if args.dataset is None:
        raise UsageError("no dataset was named", next_step="lab loaderbench MODULE:FACTORY, as data:make_training_set")
    for path in filter(None, (args.out, args.record)):
        _check_writable(path)
    with _ended_like_an_interrupt():
        _measure(args)
    return 0


def _measure(args):
    from labsupport.loaderbench import bench

    subject = subject_of(args.dataset)
    dataset, step = subject.pop("dataset"), subject.pop("step", None)
    if args.step:
        step = _find(args.step)
    if args.shuffle:
        subject["shuffle"] = True
    if args.drop_last:
        subject["drop_last"] = True
    report = bench(
        dataset,
        step=step,
        workers=_numbers(args.workers, "--workers"),
        batch_size=_numbers(args.batch_size, "--batch-size"),
        prefetch=_numbers(args.prefetch, "--prefetch"),
        persistent=_choice(args.persistent),
        pin=_choice(args.pin),
        batched=_choice(args.batched),
        start=tuple(args.start.split(",")) if args.start else None,
        repeat=args.repeat,
        seconds=args.seconds,
        batches=args.batches,
        device=args.device,
        deadline_s=args.deadline,
        **subject,
    )
    if args.out:
        report.save(args.out)
    if args.record:
        report.recommended_run.save(args.record)
    print(report.text())


def subject_of(text):
    """Return {"dataset": ..., and what else its factory gave: "step", "collate_fn", ...}.

    Raises:
        LabError: the module or the name does not exist, or the factory raises.
    """
    made = _find(text)
    if isinstance(made, type) or (
        callable(made) and not hasattr(made, "__getitem__") and not hasattr(made, "__iter__")
    ):
        made = _called(made, text)
    if isinstance(made, dict) and "dataset" in made:
        return dict(made)
    return {"dataset": made}


def _called(factory, text):
    try:
        return factory()
    except LabError:
        raise
    except Exception as error:
        raise LabError(
            f"{text} raised {type(error).__name__}",
            why=" ".join(str(error).split())[:300],
            next_step="write a function without arguments that returns the dataset, and name that",
        ) from error


def _find(text):
    module_name, _, name = text.rpartition(":")
    if not module_name or not name:
        raise UsageError(f"{text!r} is not MODULE:NAME", next_step="as data:make_training_set, or data.py:Images")
    module = _module(module_name)
    found = module
    for part in name.split("."):
        if not hasattr(found, part):
            own = [n for n, thing in vars(module).items() if getattr(thing, "__module__", None) == module.__name__]
            why = f"it has {', '.join(own[:8])}" if own else None
            raise UsageError(f"{module_name} has no {name!r}", why=why, next_step="name one of these" if own else None)
        found = getattr(found, part)
    return found


def _module(name):
    """Import a module by name or by file, in a way that a spawned worker can repeat: found on `sys.path`."""
    folder = Path.cwd()
    if name.endswith(".py"):
        path = Path(name).resolve()
        if not path.is_file():
            raise UsageError(f"there is no file {name}", next_step="give the path of the module, or its name")
        folder, name = path.parent, path.stem
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise UsageError(
                f"there is no module {name!r}", next_step="run it where the module is, or give FILE.py:NAME"
            ) from None
        raise LabError(f"{name} needs {error.name}, which is not installed here") from error
    except Exception as error:
        raise LabError(
            f"importing {name} raised {type(error).__name__}", why=" ".join(str(error).split())[:300]
        ) from error


def _numbers(text, option):
    if text is None:
        return None
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"{option} cannot be {text!r}", next_step="give whole numbers with commas: 0,1,2,4") from None


def _choice(text):
    return {None: None, "yes": True, "no": False, "both": (False, True)}[text]


def _check_writable(path):
    folder = Path(path).resolve().parent
    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder}", next_step="make it first; nothing was run")


class _Ended(KeyboardInterrupt):
    """A request to end: what catches the errors of a dataset, `SystemExit` among them, must not take it for one."""


class _ended_like_an_interrupt:
    """A request to end (SIGTERM, a closed terminal) leaves as Ctrl-C does: workers first, then this process."""

    def __enter__(self):
        self.before = {}
        for name in ("SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) == signal.SIG_DFL:
                self.before[number] = signal.signal(number, self._leave)

    def __exit__(self, kind, error, trace):
        for number, before in self.before.items():
            signal.signal(number, before)
        if isinstance(error, _Ended):
            raise SystemExit(*error.args) from None

    @staticmethod
    def _leave(number, frame):
        raise _Ended(128 + number)
