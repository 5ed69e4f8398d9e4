"""Opset conversion against ONNX Runtime: a model raised to 21 answers as the model it was.

Every real model of an opset below 21, and one small model for each rewrite of opset.def.
"""
import pathlib
import subprocess

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from common import Oracle, answers, relative_rms, session

F, I, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
RANDOM = np.random.default_rng(21)


def normal(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def raised(oracle, path, version=21):
    out = oracle.folder / "raised.onnx"
    tool = pathlib.Path(oracle.nibble).resolve().parent.parent / "tests" / "raise_opset"
    done = subprocess.run([tool, path, out, str(version)], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"exit {done.returncode}: {done.stderr.strip()}")
    return out


def compare(oracle, what, path, feeds, limit=1e-6):
    try:
        out = raised(oracle, path)
        onnx.checker.check_model(str(out))
        before, after = answers(session(path), feeds), answers(session(out), feeds)
        opset = next(o.version for o in onnx.load(out).opset_import if o.domain in ("", "ai.onnx"))
        error = max(relative_rms(before[n], after[n]) if before[n].dtype != bool else float((before[n] != after[n]).any()) for n in before)
        oracle.check(what, opset == 21 and error <= limit, f"opset {opset}, relative RMS {error:.2e}")
    except Exception as e:
        oracle.check(what, False, str(e)[:400])


def real_feeds(path):
    """Inputs for any of the real models; sizes that their Reshapes and masks can live with."""
    feeds = {}
    for spec in session(path).get_inputs():
        dims = [d if isinstance(d, int) and d > 0 else 1 if i == 0 else 8 for i, d in enumerate(spec.shape)]
        if "OCR" in path.stem or "ocr" in path.stem:
            dims = [1, 3, 48, 64 if "cls" not in path.stem else 192] if "det" not in path.stem else [1, 3, 64, 64]
        if "silero" in path.stem:
            dims = {"input": [1, 576], "state": [2, 1, 128], "sr": []}[spec.name]
        if "past" in spec.name:
            dims[1 if "gpt2" in path.stem else 0] = 1
        if spec.type == "tensor(float)":
            feeds[spec.name] = np.ones(dims, np.float32) if "mask" in spec.name else normal(*dims)
        elif spec.name == "sr":
            feeds[spec.name] = np.array(16000, np.int64)
        else:
            kind = np.int32 if spec.type == "tensor(int32)" else np.int64
            feeds[spec.name] = np.ones(dims, kind)
            if "mask" in spec.name and "gpt2" in path.stem:
                feeds[spec.name] = np.ones([1, 16], kind)
    return feeds


def real_models(oracle):
    if not oracle.shared.is_dir():
        return print("NOT RUN: the real models: their folder is absent")
    for path in sorted(oracle.shared.glob("*.onnx")):
        opset = next(o.version for o in onnx.load(path).opset_import if o.domain in ("", "ai.onnx"))
        if opset >= 21:
            print(f"{path.stem}: is of opset {opset}")
            continue
        compare(oracle, f"{path.stem}, opset {opset}", path, real_feeds(path))
        print(f"{path.stem}: opset {opset} -> 21")


def small(oracle, what, opset, op, feeds, inits=None, outputs=((F, None),), inputs=None, **attributes):
    """One node of an old opset. `feeds` in input order; `inputs` names them when some are left out or are constants."""
    names = [f"x{i}" for i in range(len(feeds))]
    outs = [f"y{i}" for i in range(len(outputs))]
    node = helper.make_node(op, inputs or names + list(inits or {}), outs, **attributes)
    kinds = {np.dtype(np.float32): F, np.dtype(np.int64): I, np.dtype(bool): B}
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info(n, kinds[v.dtype], v.shape) for n, v in zip(names, feeds)],
        [helper.make_tensor_value_info(n, kind, shape) for n, (kind, shape) in zip(outs, outputs)],
        [numpy_helper.from_array(v, k) for k, v in (inits or {}).items()])
    path = oracle.folder / "small.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=7), path)
    compare(oracle, f"{what}, opset {opset}", path, dict(zip(names, feeds)))


def rewrites(oracle):
    x = normal(2, 3, 4)
    image = normal(1, 2, 4, 4)
    for op in ("Softmax", "LogSoftmax", "Hardmax"):
        for axis in (None, 0, 1, 2, -1, -2):
            small(oracle, f"{op} axis {axis}", 11, op, [x], **({} if axis is None else {"axis": axis}))
    for op in ("ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceSum",
               "ReduceLogSumExp"):
        for axes in (None, [1], [0, 2], [-1]):
            small(oracle, f"{op} {axes}", 11, op, [x], keepdims=0, **({} if axes is None else {"axes": axes}))
    small(oracle, "ReduceLogSum", 11, "ReduceLogSum", [np.abs(x) + 1], axes=[1])
    small(oracle, "Squeeze", 11, "Squeeze", [normal(1, 3, 1)], axes=[0])
    small(oracle, "Squeeze all", 11, "Squeeze", [normal(1, 3, 1)])
    small(oracle, "Unsqueeze", 11, "Unsqueeze", [x], axes=[0, -1])
    for bounds in ({"min": -0.5}, {"max": 0.5}, {"min": -0.5, "max": 0.5}, {}):
        small(oracle, f"Clip {bounds}", 9, "Clip", [x], **bounds)
    for mode in ("constant", "reflect", "edge"):
        small(oracle, f"Pad {mode}", 9, "Pad", [image], pads=[0, 0, 1, 2, 0, 0, 2, 1], mode=mode, value=0.5)
    small(oracle, "Slice", 9, "Slice", [x], starts=[1, 0], ends=[3, -1], axes=[1, 2])
    small(oracle, "Slice without axes", 9, "Slice", [x], starts=[0, 1], ends=[9, 3])
    small(oracle, "Split", 11, "Split", [x], outputs=((F, None),) * 2, split=[1, 3], axis=2)
    small(oracle, "Split in equal parts", 11, "Split", [x], outputs=((F, None),) * 3, axis=1)
    small(oracle, "TopK", 9, "TopK", [x], outputs=((F, None), (I, None)), k=2, axis=1)
    small(oracle, "Dropout", 9, "Dropout", [x], ratio=0.3)
    for mode in ("nearest", "linear"):
        small(oracle, f"Upsample {mode}", 8, "Upsample", [image], mode=mode, scales=[1.0, 1.0, 2.0, 2.0])
        small(oracle, f"Upsample {mode}", 9, "Upsample", [image], {"s": np.array([1, 1, 2, 2], np.float32)}, mode=mode)
        for scale in (2.0, 1.5, 0.5):
            small(oracle, f"Resize {mode} {scale}", 10, "Resize", [image], {"s": np.array([1, 1, scale, scale], np.float32)}, mode=mode)
    empty = np.zeros(0, np.float32)
    small(oracle, "Resize to sizes", 11, "Resize", [image], {"roi": empty, "scales": empty, "sizes": np.array([1, 2, 7, 6], np.int64)},
          mode="linear", coordinate_transformation_mode="half_pixel")
    small(oracle, "Scatter", 9, "Scatter", [normal(3, 3), np.array([[1, 0, 2]], np.int64), normal(1, 3)], axis=0)
    channels = [np.abs(normal(2)) + 0.5 for _ in range(4)]
    small(oracle, "BatchNormalization", 8, "BatchNormalization", [image], dict(zip("sbmv", channels)), spatial=1)
    small(oracle, "BatchNormalization", 9, "BatchNormalization", [image], dict(zip("sbmv", channels)))
    small(oracle, "RoiAlign", 10, "RoiAlign", [image, np.array([[0, 0, 3, 3]], np.float32), np.array([0], np.int64)],
          output_height=2, output_width=2, sampling_ratio=2)
    small(oracle, "GridSample", 16, "GridSample", [image, normal(1, 3, 3, 2)], mode="bilinear")
    small(oracle, "GridSample cubic", 16, "GridSample", [image, normal(1, 3, 3, 2) * 0.3], mode="bicubic")
    small(oracle, "GroupNormalization", 18, "GroupNormalization", [normal(2, 6, 3)], {"s": normal(3), "b": normal(3)},
          outputs=((F, [2, 6, 3]),), num_groups=3)
    small(oracle, "DFT", 17, "DFT", [normal(1, 8, 1)], axis=1)
    small(oracle, "Gemm", 7, "Gemm", [normal(3, 4), normal(4, 5), normal(5)])
    small(oracle, "PRelu", 7, "PRelu", [x], {"s": normal(3, 1)})
    small(oracle, "ArgMax", 9, "ArgMax", [x], outputs=((I, None),), axis=1)
    small(oracle, "MaxPool", 8, "MaxPool", [image], kernel_shape=[2, 2], strides=[2, 2])
    small(oracle, "AveragePool", 7, "AveragePool", [image], kernel_shape=[3, 3], pads=[1, 1, 1, 1])


def main():
    oracle = Oracle()
    real_models(oracle)
    rewrites(oracle)
    oracle.finish()


main()
