"""Codecs that change nothing and count how often they decode: a second opinion on the counts, from inside zarr."""

import threading

import numcodecs
import numcodecs.abc
import zarr.registry
from zarr.abc.codec import BytesBytesCodec

__all__ = ["DECODED", "V2", "V3"]


class _Tally:
    def __init__(self):
        self.lock, self.count = threading.Lock(), 0

    def one(self):
        with self.lock:
            self.count += 1

    def taken(self):
        """Return the count and begin again."""
        with self.lock:
            count, self.count = self.count, 0
            return count


DECODED = _Tally()


class V3(BytesBytesCodec):
    """For Zarr v3, also inside shards."""

    is_fixed_size = True

    @classmethod
    def from_dict(cls, data):
        return cls()

    def to_dict(self):
        return {"name": "labsupport.counted", "configuration": {}}

    def compute_encoded_size(self, input_byte_length, _chunk_spec):
        return input_byte_length

    async def _decode_single(self, chunk_bytes, chunk_spec):
        DECODED.one()
        return chunk_bytes

    async def _encode_single(self, chunk_bytes, chunk_spec):
        return chunk_bytes

    def _decode_sync(self, chunk_bytes, chunk_spec):
        DECODED.one()
        return chunk_bytes

    def _encode_sync(self, chunk_bytes, chunk_spec):
        return chunk_bytes


class V2(numcodecs.abc.Codec):
    """For Zarr v2."""

    codec_id = "labsupport.counted"

    def encode(self, buf):
        return bytes(buf)

    def decode(self, buf, out=None):
        DECODED.one()
        return numcodecs.compat.ndarray_copy(buf, out)


zarr.registry.register_codec("labsupport.counted", V3)
numcodecs.register_codec(V2)
