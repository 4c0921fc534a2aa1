"""The wire between the judge and a child that runs a learner's code: one question, one answer, each a checked frame.

Before its frame every message carries a nonce of 16 bytes. The judge draws a fresh one for each question; an answer
must repeat it, so nothing prepared before the question was read can pass for an answer. What a child sends is never
trusted: `codec` says what a frame may hold. A child's copy of the package needs `wire`, `codec`, `decoding`, `layouts`.
"""

import secrets
import socket
import time

from labsupport.grading.codec import MAX_BYTES, MAX_QUESTION, PREFIX, TooLarge, WireError, encode
from labsupport.grading.decoding import decode, decode_body, lengths

__all__ = ["MAX_BYTES", "MAX_QUESTION", "Channel", "Closed", "TooLarge", "WireError", "decode", "encode"]

NONCE = 16
_AT_ONCE = 1 << 18  # bytes asked for in one read
_SHORT = 4096  # a read shorter than this is followed by a pause, so that single bytes cost no processor
_PAUSE_S = 0.001
_OVER = "the time for this message is over"


class Closed(ConnectionError):
    """The other side is gone; nothing is said about what it sent before."""


class Channel:
    """One end of a stream socket (a `socketpair`) on which plain data goes to and fro.

    The asking end (`asks=True`, the judge) draws a nonce in `send` and wants it back in `recv`. The answering end
    repeats the last nonce it received. Before the first question both use zeros: a child may say hello unasked.

    Args:
        sock: a connected stream socket; the channel closes it.
        asks: whether this end asks the questions.
    """

    def __init__(self, sock, *, asks):
        self.sock, self.asks = sock, asks
        self.nonce = bytes(NONCE)
        self.granted_s = None  # a function: by how much deadlines are put off; asked each time one has passed
        self._ahead = bytearray()  # what was read beyond the message asked for: the next one, or its beginning
        self.fds = ()  # descriptors that came with the last message, the receiver's to close

    def fileno(self):
        return self.sock.fileno()

    def close(self):
        self.sock.close()

    def ask(self, question, deadline_s, *, max_bytes=MAX_BYTES, fds=()):
        """Return the answer to a question; `deadline_s` seconds cover sending, thinking and receiving.

        Raises:
            TimeoutError, Closed, WireError: as `send` and `recv`.
        """
        ends = time.monotonic() + deadline_s
        self.send(question, deadline_s, fds=fds, keep_layout=True)
        return self.recv(ends - time.monotonic(), max_bytes)

    def send(self, value, deadline_s=None, *, max_bytes=MAX_QUESTION, fds=(), keep_layout=False):
        """Send one value, with descriptors beside it when given.

        Args:
            deadline_s: seconds until the whole message has to be on its way, or None.
            keep_layout: see `encode`; the answering end decodes layouts, the asking end refuses them.

        Raises:
            TimeoutError: the other side did not read in time.
            WireError: something was sent before this question was asked; TooLarge: the value is over a cap.
            Closed: the other side is gone.
        """
        frame = encode(value, max_bytes=max_bytes, keep_layout=keep_layout)
        if self.asks:
            if self._peek():
                raise WireError("an answer before the question")
            self.nonce = secrets.token_bytes(NONCE)
        message = memoryview(self.nonce + frame)
        ends = None if deadline_s is None else time.monotonic() + deadline_s
        try:
            sent = self._first(message, fds, ends) if fds else 0
            while sent < len(message):
                self._wait_until(ends)
                sent += self._now_or_later(self.sock.send, message[sent : sent + _AT_ONCE]) or 0
        except (BrokenPipeError, ConnectionResetError):
            raise Closed("the other side is gone") from None

    def _first(self, message, fds, ends):
        sent = None
        while sent is None:
            self._wait_until(ends)
            sent = self._now_or_later(socket.send_fds, self.sock, [message[:_AT_ONCE]], list(fds))
        return sent

    def _peek(self):
        if self._ahead:
            return True
        self.sock.setblocking(False)
        try:
            return bool(self.sock.recv(1, socket.MSG_PEEK))
        except BlockingIOError:
            return False
        except ConnectionResetError:
            raise Closed("the other side is gone") from None

    def recv(self, deadline_s=None, max_bytes=None, *, max_fds=0):
        """Return the value of one message.

        Args:
            deadline_s: seconds until the whole message has to be here, or None to wait.
            max_bytes: cap on its frame; MAX_BYTES for an answer, MAX_QUESTION for a question when None.
            max_fds: descriptors accepted with it (`fds`); without, the kernel closes any that come.

        Raises:
            TimeoutError: the message was not complete in time.
            WireError: it is not a frame, holds what may not cross, or repeats another nonce; TooLarge: over a cap.
            Closed: the other side is gone.
        """
        ends = None if deadline_s is None else time.monotonic() + deadline_s
        max_bytes = max_bytes or (MAX_BYTES if self.asks else MAX_QUESTION)
        head = self._read(NONCE + PREFIX.size, ends, max_fds)
        nonce, prefix = bytes(head[:NONCE]), head[NONCE:]
        if self.asks and not secrets.compare_digest(nonce, self.nonce):
            raise WireError("an answer to another question")
        header_size, buffers_size = lengths(prefix, max_bytes)
        body = self._read(header_size + buffers_size, ends)
        if not self.asks:
            self.nonce = nonce
        return decode_body(body, header_size, layouts_allowed=not self.asks)

    def _read(self, size, ends, max_fds=0):
        """Return exactly `size` bytes; memory grows with what arrives, not with what was announced."""
        found, short = self._ahead, False
        while len(found) < size:
            # Who reads late finds what was sent in time; who sends bit by bit gains nothing by it.
            if self._wait_until(ends) and short:
                raise TimeoutError(_OVER)
            try:
                chunk = self._now_or_later(self._chunk, _AT_ONCE, max_fds)
            except ConnectionResetError:
                chunk = b""
            if chunk is None:
                continue
            if not chunk:
                self._ahead = bytearray()
                raise Closed("the other side is gone")
            found += chunk
            max_fds, short = 0, len(chunk) < _SHORT
            if short and len(found) < size:
                time.sleep(_PAUSE_S)
        self._ahead = found[size:]
        del found[size:]
        return found

    def _chunk(self, size, max_fds):
        if not max_fds:
            return self.sock.recv(size)
        chunk, self.fds, *_ = socket.recv_fds(self.sock, size, max_fds)
        return chunk

    def _wait_until(self, ends):
        """Let the next step wait until then at most; returns whether that is over: then it does not wait at all."""
        left = None if ends is None else ends - time.monotonic()
        if left is not None and left <= 0:
            granted = self.granted_s() if self.granted_s else 0.0
            left = max(0.0, ends + granted - time.monotonic())
        self.sock.settimeout(left)
        return left == 0

    @staticmethod
    def _now_or_later(step, *args):
        """Return what a step on the socket gave, None when its time has passed: that may be put off by now.

        Raises:
            TimeoutError: it could not be done at once, and had to be.
        """
        try:
            return step(*args)
        except BlockingIOError:
            raise TimeoutError(_OVER) from None
        except TimeoutError:
            return None
