"""Small JSON messages with descriptors beside them, between processes that trust each other."""

import json
import socket
import struct

__all__ = ["receive", "send"]

_LENGTH = struct.Struct("<I")
_MOST = 16 << 20  # bytes of one message
_MOST_FDS = 32


def send(sock, message, fds=()):
    """Send a message; the descriptors are duplicated on the way, the caller keeps (and closes) its own."""
    raw = json.dumps(message).encode()
    packet = _LENGTH.pack(len(raw)) + raw
    sent = socket.send_fds(sock, [packet], list(fds)) if fds else 0
    sock.sendall(packet[sent:])


def receive(sock):
    """Return (message, descriptors); the descriptors are the caller's to close.

    Raises:
        EOFError: the other side is gone.
    """
    head, fds, *_ = socket.recv_fds(sock, _LENGTH.size, _MOST_FDS)
    fds = list(fds)
    while 0 < len(head) < _LENGTH.size:
        head += _more(sock, _LENGTH.size - len(head))
    if not head:
        raise EOFError("the other side is gone")
    (size,) = _LENGTH.unpack(head)
    if size > _MOST:
        raise EOFError(f"a message of {size:,} bytes is none of ours")
    raw = bytearray()
    while len(raw) < size:
        raw += _more(sock, size - len(raw))
    return json.loads(raw), fds


def _more(sock, size):
    chunk = sock.recv(size)
    if not chunk:
        raise EOFError("the other side is gone")
    return chunk
