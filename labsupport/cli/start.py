"""lab start: copy the lessons to the workspace and open JupyterLab on them."""

import os
import platform
import sys

from labsupport.errors import UsageError
from labsupport.places import command, workspace

__all__ = ["add_arguments", "run"]

_PORT = 8888
_OPENS_S = 10  # a browser that takes longer to be reached goes on by itself


def add_arguments(parser):
    """Declare LESSON, --no-browser and --port."""
    parser.add_argument(
        "lesson", nargs="?", metavar="LESSON", help="open this lesson (number or name), not the home page"
    )
    parser.add_argument("--no-browser", action="store_true", help="only print the address")
    parser.add_argument("--port", type=int, metavar="N", help=f"first port to try (default {_PORT})")
    parser.epilog = "On the first call: --torch cpu|cuda|auto chooses the build of PyTorch that is installed."


def run(args):
    """Return 0 once the learner has ended the server; in a JupyterHub, once the workspace is ready.

    When the course is open already, its address is told and 0 is returned at once; a second server is started only
    with a port that is asked for.
    """
    if args.port is not None and not 0 <= args.port <= 65535:
        raise UsageError(f"there is no port {args.port}", next_step=f"{command()} start --port {_PORT}")
    page = _prepare(args.lesson)
    _tell_news()
    if os.environ.get("JUPYTERHUB_API_TOKEN") or os.environ.get("JUPYTERHUB_SERVICE_PREFIX"):
        return _in_a_hub(page)

    from labsupport.server import open_page, serve
    from labsupport.server.running import find

    page = page.relative_to(workspace())
    open_browser = not args.no_browser and not _on_a_remote_machine()
    there = find(workspace())
    if there and args.port in (None, there.port):
        _announce_again(there, there.address_of(page))
        opening = open_page(there.address_of(page)) if open_browser else None
        if opening:
            opening.join(_OPENS_S)
        return 0
    wanted = _PORT if args.port is None else args.port
    serve(
        workspace(), page, port=wanted, open_browser=open_browser,
        announce=lambda url, port: _announce(url, port, wanted),
    )  # fmt: skip
    print(f"\nStopped. Your work is in {workspace()}.")
    return 0


def _tell_news():
    from labsupport.workspace import outdated

    count = len(outdated())
    if count:
        print(f"{count} notebook{' has' if count == 1 else 's have'} newer text: {command()} update\n")


def _prepare(lesson):
    """Return the notebook to open, after copying the lessons that are not in the workspace yet."""
    from labsupport import workspace as copies
    from labsupport.catalog import find_lesson

    # An unknown lesson is told before anything is written.
    slug = "home" if lesson is None else find_lesson(lesson).slug
    problems = []
    there = copies.start_all(problems)
    page = copies.copy_of(slug)
    if not there or (lesson is not None and page not in there):
        return copies.start(slug)  # raises what is wrong with it
    for problem in problems:
        print(f"{problem}\nThe other notebooks are there.\n", file=sys.stderr)
    return page if page in there else there[0]


def _announce(url, port, wanted):
    if wanted not in (0, port):
        print(f"Port {wanted} is in use, so the course takes {port}.")
    print(f"The course is open at\n\n  {url}\n")
    _tell_tunnel(port)
    print(f"Your copies of the lessons are in {workspace()}. Ctrl-C here ends the course.", flush=True)


def _announce_again(there, url):
    print(f"The course is open already, at\n\n  {url}\n")
    _tell_tunnel(there.port)
    print("Ctrl-C in the terminal where it was started ends it.", flush=True)


def _tell_tunnel(port):
    if _on_a_remote_machine():
        print("This machine is remote: on your own run the next line, then open the address there.")
        print(f"  ssh -N -L {port}:127.0.0.1:{port} {platform.node()}")


def _on_a_remote_machine():
    """Reached by SSH, and nothing set (as editors do) to open an address at the other end."""
    return bool(os.environ.get("SSH_CONNECTION")) and not os.environ.get("BROWSER")


def _in_a_hub(page):
    print(f"The lessons are ready in {workspace()}.")
    print(f"This is a JupyterHub: open {page.name} there in the file browser on the left.")
    if os.environ.get("VIRTUAL_ENV") or sys.prefix != sys.base_prefix:
        print(f"Its notebooks need the course's packages in the hub's own Python; here they are in {sys.prefix}.")
    return 0
