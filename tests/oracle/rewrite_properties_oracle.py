"""Slices that go, Pads and BatchNormalizations that are folded: hundreds of random models each, over shapes, axes, attributes
and opsets, also those where a rewrite would be wrong. What is written answers as the model did, in ONNX Runtime and in our
executor; a model that ONNX Runtime does not run is compared on our executor alone. Each kind must fire, and must refuse, often."""
import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

from common import Oracle, answers

F = TensorProto.FLOAT
CASES = 200
FAR = [2**31 - 1, 2**63 - 1]


def agree(expected, got, limit=1e-5):
    """Equal where infinite or NaN, and within a relative RMS elsewhere."""
    if expected.shape != got.shape or expected.dtype != got.dtype:
        return False
    same = (expected == got) | (np.isnan(expected) & np.isnan(got))
    if not (np.isfinite(expected) == np.isfinite(got)).all() or not same[~np.isfinite(expected)].all():
        return False
    finite = np.isfinite(expected)
    a, b = expected[finite].astype(np.float64), got[finite].astype(np.float64)
    return a.size == 0 or np.sqrt(((a - b) ** 2).mean()) <= limit * max(np.sqrt((a ** 2).mean()), 1e-30)


class Random:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def one(self, choices):
        return choices[int(self.rng.integers(len(choices)))]

    def chance(self, p):
        return bool(self.rng.random() < p)

    def number(self, low, high):
        return int(self.rng.integers(low, high + 1))

    def normal(self, *shape):
        return self.rng.standard_normal(shape).astype(np.float32)


class Case:
    """A model in the making: constants as initializers, Constant nodes or initializers that are inputs too."""

    def __init__(self, random, opset):
        self.random, self.opset, self.nodes, self.inits, self.names = random, opset, [], {}, 0

    def constant(self, value):
        name = f"k{len(self.inits) + len(self.nodes)}_{self.names}"
        self.names += 1
        if self.random.chance(0.3):
            self.nodes.append(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.asarray(value), name)))
        else:
            self.inits[name] = np.asarray(value)
        return name

    def add(self, op, inputs, **attributes):
        self.names += 1
        out = f"v{self.names}"
        self.nodes.append(helper.make_node(op, inputs, [out], name=f"node{self.names}", **attributes))
        return out

    def write(self, path, feed_dims, outputs):
        graph = helper.make_graph(self.nodes, "g", [helper.make_tensor_value_info("x", F, feed_dims)],
                                  [helper.make_tensor_value_info(o, F, None) for o in dict.fromkeys(outputs)],
                                  [numpy_helper.from_array(v, n) for n, v in self.inits.items()])
        ir_version = {7: 4, 8: 4, 9: 4, 10: 5, 11: 6, 12: 7, 13: 7, 14: 7, 15: 8, 16: 8, 17: 8}.get(self.opset, 10)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=ir_version), path)


def slices(r):
    """Most bounds lie at or beyond an end, so that many slices take all."""
    case = Case(r, r.one([9, 10, 11, 13, 18]))
    dims = [r.number(0 if r.chance(0.1) else 1, 5) for _ in range(r.number(1, 4))]
    rank = len(dims)
    axes = list(r.rng.permutation(rank)[:r.number(1, rank)])
    axes = [int(a) - (rank if r.chance(0.3) and case.opset >= 10 else 0) for a in axes]
    starts, ends, steps = [], [], []
    for a in axes:
        d = dims[a]
        backwards = case.opset >= 10 and r.chance(0.1)
        starts.append(r.one([-1, d - 1, d]) if backwards else r.one([0, 0, 0, -d, -d - 1, 1, -1, -FAR[0]]))
        ends.append(r.one([-d - 1, 0, -FAR[1]]) if backwards else r.one([d, d, d + 3, *FAR, d - 1, -1, 0]))
        steps.append(-1 if backwards else r.one([1, 1, 1, 1, 2]) if case.opset >= 10 else 1)
    x = case.add("Relu", ["x"]) if r.chance(0.5) else "x"
    all_axes = axes == list(range(len(axes))) and r.chance(0.5)
    if case.opset < 10:
        y = case.add("Slice", [x], starts=starts, ends=ends, **({} if all_axes else {"axes": axes}))
    else:
        narrow = all(abs(v) < 2**31 for v in starts + ends) and r.chance(0.3)
        kind = np.int32 if narrow else np.int64
        more = [case.constant(np.array(v, kind)) for v in (starts, ends)]
        if not all_axes or any(s != 1 for s in steps):
            more.append(case.constant(np.array(axes, kind)))
            if any(s != 1 for s in steps) or r.chance(0.5):
                more.append(case.constant(np.array(steps, kind)))
        y = case.add("Slice", [x, *more])
    outputs = [case.add("Neg", [y])] + ([y] if r.chance(0.2) else [])
    named = [f"n{i}" if r.chance(0.3) else d for i, d in enumerate(dims)]
    return case, named, r.normal(*dims), outputs, ["eliminate-no-ops"]


def pad(case, r, x, rank, op):
    spatial = rank - 2
    mode = r.one(["constant"] * 14 + ["reflect", "edge"])
    low = -1 if r.chance(0.15) else 0
    channels = [1 if r.chance(0.05) else 0 for _ in range(2)]
    begins, ends = channels + [r.number(low, 2) for _ in range(spatial)], [0, 0] + [r.number(low, 2) for _ in range(spatial)]
    value = r.one([None, 0.0, 0.5, -np.inf]) if r.chance(0.25) else r.one([0.0, -np.inf] if op == "MaxPool" else [None, 0.0])
    if case.opset < 11:
        return case.add("Pad", [x], pads=begins + ends, mode=mode, **({} if value is None else {"value": value}))
    axes = list(range(rank))
    if case.opset >= 18 and r.chance(0.5):
        axes = [int(a) for a in r.rng.permutation(rank)] if r.chance(0.3) else axes[2:]
    pads = case.constant(np.array([begins[a] for a in axes] + [ends[a] for a in axes], np.int64))
    more = [] if value is None and axes == list(range(rank)) else ["" if value is None else case.constant(np.float32(value))]
    if axes != list(range(rank)):
        more.append(case.constant(np.array([a - (rank if r.chance(0.3) else 0) for a in axes], np.int64)))
    return case.add("Pad", [x, pads, *more], mode=mode)


def window(r, case, op, spatial):
    out = {"kernel_shape": [r.number(2, 4) for _ in range(spatial)], "strides": [r.number(1, 2) for _ in range(spatial)]}
    kind = r.number(0, 9)
    if kind < 4:
        out["pads"] = [r.number(0, 1) for _ in range(2 * spatial)]
    elif kind == 4:
        out["auto_pad"] = r.one(["SAME_UPPER", "SAME_LOWER", "VALID"])
    if op == "Conv" and r.chance(0.3) or op == "MaxPool" and case.opset >= 10 and r.chance(0.15) or \
            op == "AveragePool" and case.opset >= 19 and r.chance(0.15):
        out["dilations"] = [r.number(1, 2) for _ in range(spatial)]
    if op != "Conv" and case.opset >= 10 and r.chance(0.15):
        out["ceil_mode"] = 1
    if op == "AveragePool" and r.chance(0.5):
        out["count_include_pad"] = r.number(0, 1)
    return out


def pads(r):
    case = Case(r, r.one([9, 10, 11, 13, 18, 19, 21]))
    spatial = r.number(1, 3)
    dims = [r.number(1, 2), r.number(1, 3)] + [r.number(3, 6) for _ in range(spatial)]
    x = case.add(r.one(["Relu", "Sigmoid", "Abs", "Neg", "Tanh"]), ["x"]) if r.chance(0.7) else "x"
    op = r.one(["Conv", "AveragePool", "MaxPool"])
    padded = pad(case, r, x, spatial + 2, op)
    attributes = window(r, case, op, spatial)
    if op == "Conv":
        channels = dims[1]
        groups = channels if r.chance(0.3) else 1
        w = case.constant(r.normal(groups * r.number(1, 2), channels // groups, *attributes["kernel_shape"]))
        y = case.add("Conv", [padded, w], group=groups, **attributes)
    else:
        y = case.add(op, [padded], **attributes)
    outputs = [case.add("Neg", [y])]
    if r.chance(0.1):
        outputs.append(case.add("Relu", [padded]))
    if r.chance(0.05):
        outputs.append(padded)
    return case, [f"n{i}" if r.chance(0.3) else d for i, d in enumerate(dims)], r.normal(*dims), outputs, ["fold-pad"]


def linear(r, case, x, channels, spatial, weight=None):
    """A linear operator and what it makes: (y, channels of y, its weight), or None when the shared weight does not fit."""
    if spatial == 0:
        out = r.number(1, 5)
        op = r.one(["Gemm", "Gemm", "MatMul"])
        transposed = op == "Gemm" and r.chance(0.5)
        w = weight or case.constant(r.normal(out, channels) if transposed else r.normal(channels, out))
        bias = [case.constant(r.normal(*r.one([(out,), (1, out), (1,)])))] if op == "Gemm" and r.chance(0.6) else []
        more = {"alpha": 0.5, "beta": 2.0} if op == "Gemm" and r.chance(0.3) else {}
        return case.add(op, [x, w, *bias], **({"transB": int(transposed)} if op == "Gemm" else {}), **more), out, w
    groups = r.one([g for g in (1, 2, 3, 6) if channels % g == 0])
    out = groups * r.number(1, 3)
    kernel = [r.number(1, 3) for _ in range(spatial)]
    attributes = {"group": groups, "kernel_shape": kernel, "strides": [r.number(1, 2) for _ in range(spatial)]}
    if r.chance(0.4):
        attributes["pads"] = [r.number(0, min(1, k - 1)) for k in kernel] * 2
    if r.chance(0.4):
        op, dims = "ConvTranspose", (channels, out // groups)
        if all(s == 2 for s in attributes["strides"]) and r.chance(0.5):
            attributes["output_padding"] = [1] * spatial
    else:
        op, dims = "Conv", (out, channels // groups)
    w = case.constant(r.normal(*dims, *kernel))
    bias = [case.constant(r.normal(out))] if r.chance(0.5) else []
    return case.add(op, [x, w, *bias], **attributes), out, w


def norm(r, case, x, channels):
    inputs = [case.constant(v) for v in (r.normal(channels), r.normal(channels), r.normal(channels), np.abs(r.normal(channels)) + 0.1)]
    more = {"epsilon": r.one([1e-5, 1e-3, 0.1])} if r.chance(0.7) else {}
    training = case.opset >= 14 and r.chance(0.1)
    if training:
        more["training_mode"] = 1
    return case.add("BatchNormalization", [x, *inputs], **more), inputs


def norms(r):
    case = Case(r, r.one([9, 11, 13, 14, 15, 17, 21]))
    spatial, channels = r.one([0, 1, 2, 2, 2, 3]), r.one([1, 2, 3, 6])
    dims = [r.number(2, 3), channels] + [r.number(3, 6) for _ in range(spatial)]
    x, outputs = "x", []
    if r.chance(0.35):  # before
        y, _ = norm(r, case, x, channels)
        if r.chance(0.1):
            outputs.append(case.add("Abs", [y]))
        y, _, w = linear(r, case, y, channels, spatial)
    else:
        y, made, w = linear(r, case, x, channels, spatial)
        if r.chance(0.15):
            outputs.append(case.add("Abs", [y]))  # a second reader
        elif r.chance(0.05):
            outputs.append(y)
        z, parameters = norm(r, case, y, made)
        if r.chance(0.1):
            outputs.append(case.add("Mul", [z, z]))
        y = z
    if r.chance(0.2):  # somebody else reads the weight
        outputs.append(case.add("Abs", [w]))
    outputs.append(case.add("Neg", [y]))
    return case, ["n0", *dims[1:]] if r.chance(0.5) else dims, r.normal(*dims), outputs, ["fold-batch-norm", "fold-scale", "matmul-to-gemm"]


def runs(path, feeds):
    """None where ONNX Runtime does not load or run the model; its complaints are not shown."""
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    try:
        return answers(ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]), feeds)
    except Exception:
        return None


def check(oracle, kind, seed, tally):
    r = Random(seed)
    case, dims, x, outputs, passes = kind(r)
    name = f"{kind.__name__} {seed}"
    path, out = oracle.folder / "case.onnx", oracle.folder / "out.onnx"
    case.write(path, dims, outputs)
    feeds = {"x": x}
    before = runs(path, feeds)
    done = oracle.run("fuse", path, "--quiet", "-o", out, *[w for p in passes for w in ("--passes", p)])
    if done.returncode == 3 and before is None:
        tally["unsound"] += 1
        return
    if not oracle.check(f"{name}: fuse", done.returncode == 0, done.stderr[-300:]):
        return
    kept = len([n for n in onnx.load(path).graph.node if n.op_type != "Constant"])
    fired = len([n for n in onnx.load(out).graph.node if n.op_type != "Constant"]) < kept
    tally["fired" if fired else "kept"] += 1
    try:
        ours = [oracle.outputs(p, feeds) for p in (path, out)] if fired or seed % 4 == 0 else None
    except Exception as e:
        tally["not run"] += 1
        ours = None
        # A window larger than what it slides over: ONNX Runtime gives nothing, we refuse.
        empty = "would have 0 output positions" in str(e)
        oracle.check(f"{name}: our executor", before is None or empty, str(e)[-300:])
    if before is not None:
        after = runs(out, feeds)
        oracle.check(f"{name}: ONNX Runtime", after is not None and all(agree(before[n], after[n]) for n in before),
                     "does not load" if after is None else str({n: (before[n].shape, after[n].shape) for n in before}))
    if ours is not None:
        oracle.check(f"{name}: ours, before and after", all(agree(ours[0][n], ours[1][n]) for n in ours[0]))
        if before is None:
            tally["only ours"] += 1


def main():
    oracle = Oracle()
    first = int(sys.argv[4]) if len(sys.argv) > 4 else 0
    for kind in (slices, pads, norms):
        tally = dict.fromkeys(("fired", "kept", "unsound", "not run", "only ours"), 0)
        for seed in range(first, first + CASES):
            check(oracle, kind, seed, tally)
        print(f"{kind.__name__}: {tally}")
        oracle.check(f"{kind.__name__}: fires and refuses", min(tally["fired"], tally["kept"]) >= CASES // 8, str(tally))
    oracle.finish()


main()
