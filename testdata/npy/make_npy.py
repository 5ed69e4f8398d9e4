"""Writes the small NumPy files beside it, which tests read. Run with NumPy; the files are checked in."""
import io
import pathlib
import zipfile

import numpy as np

here = pathlib.Path(__file__).parent
grid = np.arange(12, dtype=np.float32).reshape(3, 4) / 4

np.save(here / "grid.npy", grid)
np.save(here / "grid_fortran.npy", np.asfortranarray(grid))
np.save(here / "cube_fortran_i16.npy", np.asfortranarray(np.arange(24, dtype=np.int16).reshape(2, 3, 4)))
np.save(here / "scalar.npy", np.array(2.5))
np.save(here / "empty.npy", np.zeros((0, 3), np.uint8))
np.save(here / "flags.npy", np.array([True, False, True]))
np.save(here / "big_endian.npy", grid.astype(">f4"))
np.save(here / "text.npy", np.array(["a", "bc"]))
np.save(here / "records.npy", np.zeros(2, [("x", "<f4"), ("y", "<i4")]))
with open(here / "version2.npy", "wb") as f:
    np.lib.format.write_array(f, grid, version=(2, 0))
np.savez(here / "stored.npz", **{"x": grid, "ids/0:a": np.arange(3), "half": grid.astype(np.float16)})
np.savez_compressed(here / "deflated.npz", x=np.zeros((64, 32), np.float32), y=np.arange(64, dtype=np.int64))
# Python writes such members with sizes only behind the data.
buffer = io.BytesIO()
np.save(buffer, grid)
with open(here / "streamed.npz", "wb") as f:
    class NoSeek(io.RawIOBase):
        def writable(self): return True
        def write(self, b): return f.write(b)
    with zipfile.ZipFile(NoSeek(), "w") as z:
        with z.open("x.npy", "w") as member:
            member.write(buffer.getvalue())
