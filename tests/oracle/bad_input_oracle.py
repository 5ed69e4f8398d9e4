"""Bad input from the shell: exit code, a sentence, no crash, nothing half-written."""
import os
import resource
import signal
import subprocess
import time

import numpy as np
from onnx import TensorProto, helper

from common import Oracle, save

WEIGHT = np.random.default_rng(0).standard_normal((256, 256)).astype(np.float32)


def expect(oracle, what, code, words, *args, **kwargs):
    """The command ends with this code, says all of the words on stderr, and leaves the folder as it was."""
    before = sorted(os.listdir(oracle.folder))
    done = subprocess.run([oracle.nibble, *map(str, args)], capture_output=True, text=True, timeout=300, **kwargs)
    ok = done.returncode == code and all(w in done.stderr for w in words) and sorted(os.listdir(oracle.folder)) == before
    oracle.check(what, ok, f"exit {done.returncode} for {code}; {done.stderr.strip()[:300]}; {sorted(os.listdir(oracle.folder))}")


def unreadable_models(oracle):
    folder = oracle.folder
    model = (oracle.digits / "digits_vit.onnx").read_bytes()
    files = {"empty.onnx": (b"", []),
             "pointer.onnx": (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n", ["LFS", "git lfs pull"]),
             "cut.onnx": (model[:len(model) // 2], ["truncated"]),
             "noise.onnx": (np.random.default_rng(1).integers(0, 256, 4096, dtype=np.uint8).tobytes(), [])}
    for name, (content, words) in files.items():
        (folder / name).write_bytes(content)
        for tool in (["inspect"], ["run", "--random", "1"], ["quantize", "-o", folder / "out.onnx"]):
            expect(oracle, f"{name}: {tool[0]}", 3, words, tool[0], folder / name, *tool[1:])
    expect(oracle, "missing file", 3, [], "inspect", folder / "none.onnx")
    expect(oracle, "a folder", 3, [], "inspect", folder)


def external_model(path, location, offset=0, length=WEIGHT.nbytes, dims=WEIGHT.shape):
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=dims, data_location=TensorProto.EXTERNAL)
    for key, value in (("location", location), ("offset", str(offset)), ("length", str(length))):
        tensor.external_data.add(key=key, value=value)
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g",
                              [helper.make_tensor_value_info("x", 1, ["n", dims[0]])],
                              [helper.make_tensor_value_info("y", 1, ["n", dims[1]])], [tensor])
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10).SerializeToString())


def external_data(oracle):
    inner = oracle.folder / "inner"
    inner.mkdir()
    (oracle.folder / "outside.bin").write_bytes(WEIGHT.tobytes())
    (inner / "short.bin").write_bytes(WEIGHT.tobytes()[:1000])
    (inner / "link.bin").symlink_to(oracle.folder / "outside.bin")
    cases = {"missing": "none.bin", "short": "short.bin", "climbing": "../outside.bin", "absolute": str(oracle.folder / "outside.bin"),
             "a link that climbs": "link.bin"}
    for what, location in cases.items():
        external_model(inner / "m.onnx", location)
        expect(oracle, f"external data {what}", 3, [], "quantize", inner / "m.onnx", "-o", inner / "out.onnx")
    (inner / "good.bin").write_bytes(WEIGHT.tobytes())
    external_model(inner / "m.onnx", "good.bin", offset=2**63 - 8)
    expect(oracle, "external data at an overflowing offset", 3, [], "inspect", inner / "m.onnx")
    external_model(inner / "m.onnx", "good.bin")
    expect(oracle, "writing over the input", 2, [], "quantize", inner / "m.onnx", "-o", inner / "m.onnx")
    external_model(inner / "m2.onnx", "m.onnx.data")
    (inner / "m.onnx.data").write_bytes(WEIGHT.tobytes())
    expect(oracle, "writing over the input's data", 2, [], "quantize", inner / "m2.onnx", "-o", inner / "m.onnx", "--external-data", "always")


def missing_operator(oracle):
    path = save(oracle.folder / "image.onnx", [helper.make_node("ImageDecoder", ["x"], ["y"])], [("x", 2, [8])],
                [("y", 2, [None, None, 3])], {})
    expect(oracle, "an operator without a kernel", 4, ["ImageDecoder", "inspect", "quantize"], "run", path, "--random", "1")
    oracle.check("inspect still works", oracle.run("inspect", path).returncode == 0)


def samples(oracle):
    vit = oracle.digits / "digits_vit.onnx"
    good = np.zeros((1, 1, 8, 8), np.float32)
    cases = {"name": ({"image": good}, ["input", "image"]), "dtype": ({"input": good.astype(np.float64)}, ["float64"]),
             "rank": ({"input": good[0, 0]}, []), "dim": ({"input": np.zeros((1, 1, 8, 9), np.float32)}, ["9"]),
             "missing": ({}, ["input"])}
    for what, (arrays, words) in cases.items():
        np.savez(oracle.folder / "bad.npz", **arrays)
        expect(oracle, f"samples of the wrong {what}", 3, words, "run", vit, "--data", oracle.folder / "bad.npz")
    (oracle.folder / "bad.npz").write_bytes(b"PK\x03\x04 nonsense")
    expect(oracle, "samples that are no archive", 3, [], "run", vit, "--data", oracle.folder / "bad.npz")
    expect(oracle, "samples that are not there", 3, [], "run", vit, "--data", oracle.folder / "none.npz")


def limit_file_size():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))


def full_disk(oracle):
    """A disk that takes no more: a size limit gives the same error from the same calls; /dev/full the real one."""
    out = oracle.folder / "out.onnx"
    out.write_text("what was there")
    for external in ("never", "always"):
        expect(oracle, f"a full disk, external data {external}", 5, [], "quantize", oracle.digits / "digits_vit.onnx", "-o", out,
               "--external-data", external, preexec_fn=limit_file_size)
    oracle.check("the old output is untouched", out.read_text() == "what was there")
    out.unlink()
    if os.geteuid() == 0:
        mount = oracle.folder / "tiny"
        mount.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", mount], capture_output=True).returncode == 0:
            try:
                expect(oracle, "a full file system", 5, ["space"], "quantize", oracle.digits / "digits_vit.onnx", "-o", mount / "o.onnx")
                oracle.check("nothing is left on it", os.listdir(mount) == [])
            finally:
                subprocess.run(["umount", mount])
            return
    print("NOT RUN: a full file system (mounting one needs root)")


def interrupted(oracle):
    """A termination while the output is written: the temporary file goes, the process ends by the signal."""
    folder = oracle.folder / "interrupted"
    folder.mkdir()
    size = 16384
    with open(folder / "zeros.bin", "wb") as zeros:
        zeros.truncate(size * size * 4)
    external_model(folder / "m.onnx", "zeros.bin", length=size * size * 4, dims=(size, size))
    running = subprocess.Popen([oracle.nibble, "quantize", folder / "m.onnx", "-o", folder / "out.onnx", "--threads", "1"],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while running.poll() is None and not any("nibble-tmp" in name for name in os.listdir(folder)):
        time.sleep(0.001)
    running.send_signal(signal.SIGTERM)
    code = running.wait(timeout=60)
    oracle.check("a termination ends the process", code == -signal.SIGTERM, f"exit {code}")
    oracle.check("and leaves nothing", sorted(os.listdir(folder)) == ["m.onnx", "zeros.bin"], str(os.listdir(folder)))


def main():
    oracle = Oracle()
    unreadable_models(oracle)
    external_data(oracle)
    missing_operator(oracle)
    samples(oracle)
    full_disk(oracle)
    interrupted(oracle)
    expect(oracle, "an output folder that is not there", 5, [], "quantize", oracle.digits / "digits_vit.onnx", "-o",
           oracle.folder / "none" / "out.onnx")
    oracle.finish()


main()
