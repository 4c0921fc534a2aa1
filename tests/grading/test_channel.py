"""The channel: one question, one answer, and no frame that costs the judge more than it says."""

import gc
import json
import os
import socket
import threading
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from fuzz_wire import MEMORY, frame

from labsupport.grading import wire
from labsupport.grading.codec import MAGIC, PREFIX
from labsupport.grading.wire import MAX_BYTES, Channel, Closed, TooLarge, WireError, encode

GUARD_S = 30

# -- what it costs ------------------------------------------------------------------------------------------------

FULL = MAX_BYTES - 2 * 1024 * 1024
COSTLY = {
    "one array": lambda: frame(["a", "|u1", 1, FULL], bytes(FULL)),
    "one array of bools": lambda: frame(["a", "|b1", 1, FULL], bytes(FULL)),
    "one array of text": lambda: frame(["a", "<U1", 1, FULL // 4], b"a\0\0\0" * (FULL // 4)),
    "one text too long": lambda: frame(["s", FULL], b"a" * FULL),
    "texts too long together": lambda: frame(["l", 12, *["s", 2**20] * 12], _one_wide(2**20) * 12),
    "texts with one wide character each": lambda: frame(["l", 4, *["s", 2**20] * 4], _one_wide(2**20) * 4),
    "one text with one wide character": lambda: frame(["s", 2**22], _one_wide(2**22)),
    "empty lists and an array": lambda: _many(["l", 0], 49_000),
    "empty dicts and an array": lambda: _many(["d", 0], 49_000),
    "opaque ones and an array": lambda: _many(["o", 1], 49_000, b"x"),
    "small arrays and an array": lambda: _many(["a", "|u1", 0], 33_000, b"x"),
    "scalars and an array": lambda: _many(["n", "|u1"], 49_000, b"x"),
    "floats": lambda: _many(["f", (1 / 3).hex()], 49_000),
    "long floats": lambda: frame(["l", 49_000, *["f", "0x1." + "0" * 50 + "p+0"] * 49_000]),
    "long words": lambda: frame(["x" * 25] * 99_000),
    "one list per byte": lambda: frame(b"[" + b"[]," * 900_000 + b"0]"),
    "one number per two bytes": lambda: frame(b"[" + b"1," * 1_400_000 + b"0]"),
    "4 GB announced": lambda: PREFIX.pack(MAGIC, 5, 2**32 - 1) + b'["0"]',
    "16 MB announced, nothing sent": lambda: PREFIX.pack(MAGIC, 5, MAX_BYTES - 100) + b'["0"]',
}


def _one_wide(size):
    return b"a" * (size - 4) + "😀".encode()


def _many(tokens, count, each=b""):
    """A list of `count` small things and one array that fills the frame."""
    size = FULL - len(each) * count - 1024 * 1024
    header = ["l", count + 1, *tokens * count, "a", "|u1", 1, size]
    return frame(header, each * count + bytes(size))


@pytest.mark.parametrize("name", COSTLY)
def test_no_frame_makes_the_judge_hold_much_memory(name):
    judge, child, message = *pair(), COSTLY[name]()
    sender = threading.Thread(target=send_raw, args=(child, bytes(16), message))
    tracemalloc.start()
    try:
        sender.start()
        before = tracemalloc.get_traced_memory()[0]
        try:
            value = judge.recv(GUARD_S)
            del value
        except (WireError, Closed):
            pass
        held = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
        judge.close()
        sender.join()
    assert held < MEMORY
    if "announced" in name:
        assert held < 1_000_000


def test_single_bytes_cost_few_reads():
    judge, child = pair()
    reads = []
    read = judge._chunk
    judge._chunk = lambda *args: reads.append(1) or read(*args)
    message = encode("x" * 200)

    def dribble():
        for at in range(16 + len(message)):
            child.sock.sendall((bytes(16) + message)[at : at + 1])

    sender = threading.Thread(target=dribble)
    sender.start()
    assert judge.recv(GUARD_S) == "x" * 200
    sender.join()
    # The pause lets bytes gather: at most one read a millisecond, however many pieces are sent.
    assert len(reads) <= 16 + len(message)


# -- the channel --------------------------------------------------------------------------------------------------


def pair():
    """Return the judge's channel and the child's, joined."""
    one, other = socket.socketpair()
    return Channel(one, asks=True), Channel(other, asks=False)


def send_raw(channel, nonce, message):
    """Send a message as a hostile child may, and hang up."""
    try:
        channel.sock.sendall(nonce + message)
    except OSError:
        pass  # the judge hung up in the middle: that is what is wanted of it
    channel.close()


def test_questions_and_answers_go_to_and_fro():
    judge, child = pair()
    child.send({"layers": "ok"})
    assert judge.recv(GUARD_S) == {"layers": "ok"}
    strided = np.arange(10)[::-2]
    for _ in range(3):
        judge.send({"inputs": (strided,)}, keep_layout=True)
        asked = child.recv(GUARD_S)
        assert asked["inputs"][0].strides == strided.strides
        child.send(asked["inputs"][0].sum())
        assert judge.recv(GUARD_S) == 25


def test_an_answer_to_another_question_is_refused():
    judge, child = pair()
    judge.send(1)
    child.recv(GUARD_S)
    child.send("first")
    old = child.nonce
    assert judge.recv(GUARD_S) == "first"
    judge.send(2)
    child.recv(GUARD_S)
    child.nonce = old
    child.send("the first again")
    with pytest.raises(WireError, match="another question"):
        judge.recv(GUARD_S)


def test_an_answer_before_the_question_is_refused():
    judge, child = pair()
    child.send("prepared")
    with pytest.raises(WireError, match="before the question"):
        judge.send(1)


def test_a_second_answer_is_found_at_the_next_question():
    judge, child = pair()
    judge.send(1)
    child.recv(GUARD_S)
    child.send("one")
    child.send("two")
    assert judge.recv(GUARD_S) == "one"
    with pytest.raises(WireError, match="before the question"):
        judge.send(2)


def test_silence_and_half_an_answer_end_at_the_deadline():
    judge, child = pair()
    with pytest.raises(TimeoutError):
        judge.recv(0.01)
    judge.send(1)
    child.recv(GUARD_S)
    child.sock.sendall(child.nonce + encode("x" * 100)[:50])
    with pytest.raises(TimeoutError):
        judge.recv(0.05)


def test_a_child_that_does_not_read_does_not_hold_the_judge():
    judge, child = pair()
    with pytest.raises(TimeoutError):
        judge.send(np.zeros(1_000_000), 0.05)
    child.close()


@pytest.mark.parametrize("sent", [0, 10, 40, 200])
def test_an_end_in_the_middle_is_told_as_an_end(sent):
    judge, child = pair()
    child.sock.sendall((bytes(16) + encode("x" * 500))[:sent])
    child.close()
    with pytest.raises(Closed):
        judge.recv(GUARD_S)
    with pytest.raises(Closed):
        judge.send(np.zeros(100_000))


def test_an_answer_larger_than_allowed_is_refused_unread():
    judge, child = pair()
    judge.send(1)
    child.recv(GUARD_S)
    sender = threading.Thread(target=send_raw, args=(child, child.nonce, encode(np.zeros(100_000))))
    sender.start()
    with pytest.raises(TooLarge):
        judge.recv(GUARD_S, max_bytes=1000)
    judge.close()
    sender.join()


def test_a_question_may_be_larger_than_an_answer():
    judge, child = pair()
    large = np.zeros(MAX_BYTES + 1, np.uint8)
    got = []
    reader = threading.Thread(target=lambda: got.append(child.recv(GUARD_S).nbytes))
    reader.start()
    judge.send(large, GUARD_S)
    reader.join()
    assert got == [MAX_BYTES + 1]


fd_passing = pytest.mark.skipif(not hasattr(socket, "send_fds"), reason="descriptors are passed on Unix only")


@fd_passing
def test_descriptors_go_to_the_child(tmp_path):
    judge, child = pair()
    path = tmp_path / "shared"
    path.write_bytes(b"the judge's")
    with path.open("rb") as file:
        judge.send({"op": "call_shared"}, fds=[file.fileno()])
    assert child.recv(GUARD_S, max_fds=1) == {"op": "call_shared"}
    (fd,) = child.fds
    with os.fdopen(fd, "rb") as file:
        assert file.read() == b"the judge's"


@fd_passing
@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts descriptors in /proc")
def test_descriptors_from_a_child_are_not_taken():
    judge, child = pair()
    with Path(os.devnull).open("rb") as file:
        socket.send_fds(child.sock, [bytes(16) + encode("hello")], [file.fileno()] * 20)
        gc.collect()  # what earlier tests left open goes now, not between the two counts
        before = len(list(Path("/proc/self/fd").iterdir()))
        assert judge.recv(GUARD_S) == "hello"
        assert len(list(Path("/proc/self/fd").iterdir())) <= before


def test_a_frame_says_what_the_description_says():
    raw = encode(["a", 1.5])
    assert PREFIX.unpack(raw[: PREFIX.size]) == (MAGIC, len(raw) - PREFIX.size - 1, 1)
    assert json.loads(raw[PREFIX.size : -1]) == ["l", 2, "s", 1, "f", "0x1.8000000000000p+0"]
    assert wire.NONCE == 16
