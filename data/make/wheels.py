"""Read one file out of a published wheel, without installing it."""

import argparse
import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

__all__ = ["arguments", "read_member", "store", "wheel_of"]


def arguments(description):
    """Return the command line every script here shares: `out` and `wheels`, both paths (`wheels` may be None)."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("out", type=Path, help="folder to write into (never data/ itself: compare first, then copy)")
    parser.add_argument("--wheels", type=Path, help="folder that already holds the wheels; without it pip fetches them")
    return parser.parse_args()


def wheel_of(package, version, wheels=None):
    """Return the path of the wheel of `package` at exactly `version`, fetched by pip when no folder is given.

    Raises:
        SystemExit: the folder holds no such wheel, or pip could not fetch it.
    """
    folder = wheels or Path(tempfile.mkdtemp(prefix="wheels-"))
    if wheels is None:
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
        subprocess.run([*command, "--dest", str(folder), f"{package}=={version}"], check=True)
    found = sorted(folder.glob(f"{package.replace('-', '_')}-{version}-*.whl"))
    if not found:
        raise SystemExit(f"{folder} holds no wheel of {package} {version}")
    return found[0]


def read_member(wheel, member):
    """Return the bytes of the file `member` inside `wheel`."""
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(member)


def store(out, name, content):
    """Write `content` as `out/name` and print its size and SHA-256, in the order of the manifest's table."""
    out.mkdir(parents=True, exist_ok=True)
    (out / name).write_bytes(content)
    print(f"{name}  {len(content)}  {hashlib.sha256(content).hexdigest()}")
