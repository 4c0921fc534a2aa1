"""Why pip failed, in words: one message with the cause and the way out, from the pages that pip prints."""

import re
import ssl
import urllib.error
import urllib.request
from pathlib import Path

from labsupport.environment import machine
from labsupport.errors import LabError

__all__ = ["NoPackage", "answers", "explain", "no_room"]

_AGAIN = "then repeat the command: it goes on with what is already downloaded"
_TIMEOUT_S = 5
_NETWORK = re.compile(
    r"NewConnectionError|ConnectTimeout|ReadTimeout|Max retries exceeded|Name or service not known|getaddrinfo failed"
    r"|Temporary failure in name resolution|Network is unreachable|Connection refused|Connection reset|No route to host"
    r"|Failed to establish a new connection|nodename nor servname|ConnectionError|Remote end closed|IncompleteRead"
)
_CERTIFICATE = re.compile(r"CERTIFICATE_VERIFY_FAILED|SSLError|SSLCertVerificationError")
_PROXY = re.compile(r"ProxyError|Tunnel connection failed|407 Proxy")
_DISK = re.compile(r"No space left on device|Errno 28\b|not enough space on the disk|WinError 112|Disk quota exceeded")
_IN_USE = re.compile(r"WinError (?:5|32)\b|being used by another process")
_NOTHING = re.compile(
    r"No matching distribution found for ([^\s;]+)|no matching distributions available for your environment:\s+(\S+)"
)
_CONFLICT = re.compile(r"Cannot install (.+?) because these package versions have conflicting dependencies")


class NoPackage(LabError):
    """The index has no package that fits."""


def explain(lines, what, log):
    """Return the LabError for a failed run of pip (or of venv), from what it printed.

    Args:
        lines: what the program printed, in order.
        what: what was being done, for causes that are not known.
        log: the file that keeps everything it printed, or None.
    """
    text = "\n".join(lines)
    if _DISK.search(text):
        return no_room(log)
    if error := _of_the_network(text):
        return error
    if _IN_USE.search(text):
        why = "a program still uses the environment in .venv"
        return LabError("packages cannot be replaced", why=why, next_step=f"end JupyterLab and its kernels, {_AGAIN}")
    if match := _NOTHING.search(text):
        why = "the index that pip is set to use has no such package for this Python and system"
        step = "./lab doctor shows what this machine lacks; pip config list shows the index"
        return NoPackage(f"there is no package {match[1] or match[2]} to install", why=why, next_step=step)
    if match := _CONFLICT.search(text):
        why = "the versions in constraints.txt, or a constraint in pip's own settings, exclude each other"
        step = "pip config list shows pip's settings; ./lab doctor shows this machine"
        return NoPackage(f"no version fits of {match[1]}", why=why, next_step=step)
    said = [line for line in lines if line.lower().startswith("error")] or [line for line in lines if line.strip()]
    step = f"read {log}, {_AGAIN}" if log else "repeat the command"
    return LabError(what, why=" / ".join(said[-2:])[:300] or "it said nothing", next_step=step)


def _of_the_network(text):
    away = "the package index cannot be reached"
    if _PROXY.search(text):
        why = "the proxy named in this machine's settings refuses or needs a password"
        return LabError(away, why=why, next_step=f"check HTTPS_PROXY, {_AGAIN}")
    if _CERTIFICATE.search(text):
        why = "its certificate is not trusted here, as happens behind a company's network filter"
        step = "set PIP_CERT to your company's certificate file, then repeat the command"
        return LabError("the package index cannot be trusted", why=why, next_step=step)
    # Of an index that does not answer, too, pip says in the end that it has no such package.
    silent = (_NOTHING.search(text) or _CONFLICT.search(text)) and not answers(_index_of(text))
    if _NETWORK.search(text) or silent:
        why = "there is no connection, or it was lost on the way"
        return LabError(away, why=why, next_step=f"check the network, {_AGAIN}")
    return None


def _index_of(text):
    """Return the first index that pip says it looks in, or the usual one when it says nothing."""
    match = re.search(r"Looking in indexes: ([^\s,]+)", text)
    return match[1] if match else "https://pypi.org/simple/"


def answers(address):
    """Does anybody answer at this address, be it with a refusal?"""
    try:
        urllib.request.urlopen(urllib.request.Request(address, method="HEAD"), timeout=_TIMEOUT_S).close()
    except urllib.error.HTTPError:
        return True
    except urllib.error.URLError as error:
        return isinstance(error.reason, ssl.SSLError)  # whose certificate this Python does not know, pip may know
    except (OSError, ValueError):
        return False
    return True


def no_room(path):
    """Return the LabError for a full disk."""
    free = machine.size(machine.free_bytes(path or Path.cwd()))
    return LabError(
        "the disk is full",
        why=f"{free} are free where the environment is made (or in the folder for temporary files)",
        next_step=f"free some space, {_AGAIN}",
    )
