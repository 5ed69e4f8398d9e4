"""The openvino target's static INT8 of a CNN and a transformer, run in OpenVINO: its answers against our executor's, and its
accuracy against the float nets'.
Usage: openvino_oracle.py NIBBLE SHARED_MODELS SOURCE
"""
import numpy as np
import openvino

from common import DIGIT_NETS, Oracle, sqnr

AGREEMENT = 35  # dB
POINTS = 0.5  # of accuracy


def main():
    oracle = Oracle()
    core = openvino.Core()
    samples = oracle.digits / "heldout.npz"
    labels = np.load(oracle.digits / "labels.npy")
    for name in DIGIT_NETS:
        path, out, saved = oracle.digits / f"{name}.onnx", oracle.folder / f"{name}.onnx", oracle.folder / f"{name}.npz"
        oracle.json("quantize", path, "-o", out, "--activations", "uint8", "--target", "openvino", "--calib", samples)
        accuracy = {}
        for model in (path, out):
            done = oracle.run("run", model, "--data", samples, "-o", saved, "--quiet")
            oracle.check(f"{name}: runs", done.returncode == 0, done.stderr)
            with np.load(saved) as arrays:
                ours = arrays[arrays.files[0]]
            accuracy[model] = (ours.argmax(-1).ravel() == labels).mean() * 100
        compiled = core.compile_model(core.read_model(str(out)), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        with np.load(samples) as arrays:
            rows = arrays[compiled.inputs[0].any_name]
        theirs = np.concatenate([compiled([rows[i:i + 1]])[0] for i in range(len(rows))]).reshape(ours.shape)
        agreement = float(sqnr(ours, theirs))
        theirs_right = (theirs.argmax(-1).ravel() == labels).mean() * 100
        print(f"{name}: OpenVINO {agreement:.1f} dB from our executor; right: float {accuracy[path]:.2f} %, ours "
              f"{accuracy[out]:.2f} %, OpenVINO {theirs_right:.2f} %")
        oracle.check(f"{name}: OpenVINO and our executor", agreement >= AGREEMENT, f"{agreement:.1f} dB")
        oracle.check(f"{name}: accuracy in OpenVINO", theirs_right >= accuracy[path] - POINTS, f"{theirs_right:.2f} %")
    oracle.finish()


main()
