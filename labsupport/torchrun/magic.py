"""`%%torchrun`: the line and the cell, turned into a job that is run and shown."""

import contextlib

# To load the extension imports this module alone; everything else is imported by the first cell.

__all__ = ["register", "torchrun"]


def register(shell):
    """Give an IPython shell `%%torchrun` and `%%ranks`, and begin to start the helper."""
    from labsupport.torchrun import helper

    helper.start()

    def magic(line, cell=None):
        with _tidy():
            torchrun(line, cell or "", shell)

    magic.__doc__ = "Run the cell on real ranks by torchrun; `%%torchrun --help` lists the flags."
    shell.register_magic_function(magic, "line_cell", "torchrun")

    def ranks(line, cell=None):
        from labsupport.torchrun import ranks_magic

        with _tidy():
            ranks_magic.ranks(line, cell, shell)

    ranks.__doc__ = "Run the cell in ranks that stay until `%ranks --end`; `%ranks --help` says how."
    shell.register_magic_function(ranks, "line_cell", "ranks")
    if _alone not in shell.input_transformers_cleanup:
        shell.input_transformers_cleanup.append(_alone)


@contextlib.contextmanager
def _tidy():
    """Tell an interrupt at any moment in one line: a traceback of what lies between would say nothing to anybody."""
    try:
        yield
    except KeyboardInterrupt as stop:
        from labsupport.torchrun.running import Interrupted

        if isinstance(stop, Interrupted):
            raise
        raise Interrupted("every rank of this job has ended") from None


def _alone(lines):
    """Let `%%ranks --end` and `%%torchrun --help` stand alone: IPython refuses a cell magic without a cell."""
    if lines and lines[0].startswith(("%%ranks", "%%torchrun")) and not "".join(lines[1:]).strip():
        return [lines[0][1:], *lines[1:]]
    return lines


def torchrun(line, cell, shell):
    """Run a cell as `%%torchrun line` does.

    Raises:
        LabError: the line or the cell makes no sense, or the job could not be started.
        RanksFailed: the job ended with an error, and the line does not say `--may-fail`.
        KeyboardInterrupt: the job was interrupted.
    """
    from labsupport.torchrun import cells, checking, script
    from labsupport.torchrun.options import help_text, parse

    options = parse(line)
    if options.help:
        print(help_text())
        return
    if not cell.strip():
        from labsupport.errors import UsageError

        raise UsageError("the cell is empty", next_step="write the program below the line that begins with %%torchrun")
    program, notes = script.as_script(line, cell), []
    exercise = _exercise_in(cell)
    if exercise:
        cells.remember(exercise, cell)
    checking.check_syntax(program)
    if options.save:
        notes.append(f"saved as {script.save(options.save, program)}")
    if options.show:
        _show_command(options, notes)
        return
    from labsupport.torchrun.requesting import request_of
    from labsupport.torchrun.running import Run

    if (asked := checking.asked_world(options)) is not None:
        checking.check_numbers(options, *asked)
    notes += checking.idle_words(options)
    Run(options, request_of(options, program, cell, shell), shell, exercise, notes).start()


def _show_command(options, notes):
    from IPython.display import display

    from labsupport.showing import Code, Message
    from labsupport.torchrun import script

    lines = [("", Code(script.shell_command(options, options.save or "train.py")))]
    if flags := script.unsaved_flags(options):
        lines.append(("note", f"{', '.join(flags)} has a meaning in a notebook only"))
    lines += [("note", note) for note in notes]
    if not options.save:
        lines.append(("next", "`--save train.py` writes the cell's program to that file"))
    display(Message("The same in a shell (nothing was run)", lines))


def _exercise_in(cell):
    """Return the id in a cell's exercise marker, or None; outside the course there are no markers."""
    from labsupport.catalog import marker_of

    return marker_of(cell)
