"""Operators of vision and signal models against ONNX Runtime on random nodes: sampling, regions, pools, transforms,
losses.

The limit is 1e-5. Random operators and those that ONNX Runtime lacks are named, not compared. Left out, too, is where
ONNX Runtime 1.30 and ONNX's reference differ and we side with the reference: Col2Im with dilations of more than two
axes, STFT of a complex signal with a window, onesided inverse DFT of a length that the spectrum is not of, MaxUnpool
with output_shape.
"""
import numpy as np
import onnxruntime
from onnx import TensorProto, helper

from common import Oracle, answers, relative_rms, save, session

NODES = 40
LACKING = {"LinearAttention", "CausalConvWithState"}


class Node:
    """One node: attributes, inputs by name (None for one left out), opset. Names in `constants` are initializers."""

    def __init__(self, attributes, inputs, opset=21, outputs=1, constants=(), out_type=None):
        self.attributes, self.inputs, self.opset, self.outputs = attributes, inputs, opset, outputs
        self.constants, self.out_type = constants, out_type

    def __str__(self):
        shapes = {n: (v.dtype.name, v.shape) for n, v in self.inputs.items() if v is not None}
        values = {n: v.tolist() for n, v in self.inputs.items() if v is not None and v.size <= 4}
        return f"opset {self.opset} {self.attributes} {shapes} {values}"

    def feeds(self):
        return {n: v for n, v in self.inputs.items() if v is not None and n not in self.constants}

    def write(self, path, op):
        outputs = [f"Y{i}" for i in range(self.outputs)]
        names = [n if v is not None else "" for n, v in self.inputs.items()]
        while names and not names[-1]:
            names.pop()
        first = next(iter(self.inputs.values()))
        kind = self.out_type or helper.np_dtype_to_tensor_dtype(first.dtype)
        infos = [(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for n, v in self.feeds().items()]
        return save(path, [helper.make_node(op, names, outputs, **self.attributes)], infos,
                    [(n, kind, None) for n in outputs], {n: self.inputs[n] for n in self.constants}, self.opset)


class Source:
    """Seeded choices."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)

    def below(self, n):
        return int(self.random.integers(n))

    def between(self, low, high):
        return int(self.random.integers(low, high + 1))

    def one(self, *choices):
        return choices[self.below(len(choices))]

    def maybe(self, value, chance=2):
        return value if self.below(chance) == 0 else None

    def floats(self, *dims, dtype=np.float32, scale=1.0):
        return (self.random.standard_normal(dims) * scale).astype(dtype)

    def sizes(self, rank, low=1, high=9):
        return [self.between(low, high) for _ in range(rank)]

    def window(self, spatial, attributes=("strides", "dilations", "pads"), kernel_high=3):
        """A kernel over these axes that some position fits, and attributes for it."""
        kernel = [self.between(1, min(kernel_high, n)) for n in spatial]
        out = {}
        if "strides" in attributes and self.below(2):
            out["strides"] = [self.between(1, 3) for _ in spatial]
        if "dilations" in attributes and self.below(3) == 0:
            out["dilations"] = [self.between(1, 2) if (k - 1) * 2 + 1 <= n else 1 for k, n in zip(kernel, spatial)]
        if "pads" in attributes and self.below(2):
            out["pads"] = [self.between(0, k - 1) for k in kernel * 2]
        return kernel, out

    def positions(self, spatial, kernel, attributes):
        rank = len(spatial)
        pads = attributes.get("pads", [0] * 2 * rank)
        strides, dilations = attributes.get("strides", [1] * rank), attributes.get("dilations", [1] * rank)
        return [(spatial[i] + pads[i] + pads[rank + i] - (kernel[i] - 1) * dilations[i] - 1) // strides[i] + 1
                for i in range(rank)]


def grid_sample(s):
    rank = s.one(2, 2, 3)
    opset = s.one(16, 20, 22) if rank == 2 else s.one(20, 22)
    modes = ["linear", "nearest", "cubic"][:3 if rank == 2 else 2]
    mode = s.one(*modes)
    if opset == 16:
        mode = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
    batch, spatial = s.between(1, 3), s.sizes(rank, 2)
    grid = s.random.uniform(-1.6, 1.6, [batch, *s.sizes(rank), rank]).astype(np.float32)
    attributes = {"mode": mode, "padding_mode": s.one("zeros", "border", "reflection"), "align_corners": s.below(2)}
    return Node(attributes, {"X": s.floats(batch, s.between(1, 4), *spatial), "grid": grid}, opset)


def regions(s, count, height, width, scale):
    x, y = s.random.uniform(-2, width / scale, [2, count]), s.random.uniform(-2, height / scale, [2, count])
    return np.stack([x.min(0), y.min(0), x.max(0), y.max(0)], 1).astype(np.float32)


def roi_align(s):
    opset, count = s.one(10, 16, 21), s.between(1, 6)
    batch, channels, height, width = s.between(1, 3), s.between(1, 4), s.between(2, 20), s.between(2, 20)
    attributes = {"spatial_scale": s.one(1.0, 0.5, 0.25), "output_height": s.between(1, 5), "mode": s.one("avg", "max"),
                  "output_width": s.between(1, 5), "sampling_ratio": s.between(0, 3)}
    if opset >= 16:
        attributes["coordinate_transformation_mode"] = s.one("half_pixel", "output_half_pixel")
    rois = regions(s, count, height, width, attributes["spatial_scale"])
    return Node(attributes, {"X": s.floats(batch, channels, height, width), "rois": rois,
                             "batch_indices": s.random.integers(0, batch, count)}, opset)


def max_roi_pool(s):
    batch, channels, height, width = s.between(1, 3), s.between(1, 4), s.between(2, 20), s.between(2, 20)
    scale, count = s.one(1.0, 0.5), s.between(1, 6)
    rois = np.concatenate([s.random.integers(0, batch, [count, 1]), regions(s, count, height, width, scale)], 1)
    return Node({"pooled_shape": s.sizes(2, 1, 4), "spatial_scale": scale},
                {"X": s.floats(batch, channels, height, width), "rois": rois.astype(np.float32)}, s.one(7, 21))


def deform_conv(s):
    group, offset_group = s.one(1, 2), s.one(1, 2)
    batch, spatial = s.between(1, 2), s.sizes(2, 3, 12)
    kernel, attributes = s.window(spatial)
    channels, maps = 2 * s.between(1, 3), group * s.between(1, 3)
    out, taps = s.positions(spatial, kernel, attributes), int(np.prod(kernel))
    return Node(attributes | {"group": group, "offset_group": offset_group, "kernel_shape": kernel},
                {"X": s.floats(batch, channels, *spatial), "W": s.floats(maps, channels // group, *kernel),
                 "offset": s.floats(batch, offset_group * taps * 2, *out, scale=1.5), "B": s.maybe(s.floats(maps)),
                 "mask": s.maybe(s.floats(batch, offset_group * taps, *out))}, s.one(19, 22))


def col2im(s):
    image = s.sizes(s.one(2, 2, 3), 2)
    block, attributes = s.window(image, ("strides", "dilations", "pads") if len(image) == 2 else ("strides", "pads"))
    blocks = int(np.prod(s.positions(image, block, attributes)))
    values = s.floats(s.between(1, 3), s.between(1, 3) * int(np.prod(block)), blocks)
    return Node(attributes, {"X": values, "image": np.array(image), "block": np.array(block)}, 18)


def non_max_suppression(s):
    batch, classes, boxes = s.between(1, 2), s.between(1, 3), s.between(1, 40)
    center = s.below(2)
    values = s.random.uniform(0, 1, [batch, boxes, 4]).astype(np.float32)
    # Steps of 1 / 8 make equal scores.
    scores = (s.random.integers(0, 9, [batch, classes, boxes]) / 8).astype(np.float32)
    number = lambda value, dtype: np.array(value, dtype)
    return Node({"center_point_box": center},
                {"boxes": values, "scores": scores, "most": number(s.between(0, 12), np.int64),
                 "iou": s.maybe(number(s.random.uniform(0, 1), np.float32)),
                 "score": s.maybe(number(s.random.uniform(0, 1), np.float32))}, s.one(10, 11), out_type=TensorProto.INT64)


def dft(s):
    opset, onesided, inverse = s.one(17, 20), s.below(2), s.below(2)
    parts = (2 if inverse else 1) if onesided else s.one(1, 2)
    dims = s.sizes(s.between(1, 3), 2, 24)
    axis = s.below(len(dims))
    x = s.floats(*dims, parts, dtype=s.one(np.float32, np.float64))
    attributes = {"onesided": onesided, "inverse": inverse}
    length = 2 * (dims[axis] - 1) + s.below(2) if onesided and inverse else s.between(2, 30)
    inputs = {"X": x, "length": s.maybe(np.array(length, np.int64))}
    if opset < 20:
        return Node(attributes | {"axis": axis}, inputs, opset)
    return Node(attributes, inputs | {"axis": np.array(s.one(axis, axis - len(dims) - 1), np.int64)}, opset,
                constants=("axis",))


def stft(s):
    length, frame = s.between(16, 90), s.between(2, 16)
    onesided, parts = s.one((1, 1), (0, 1), (0, 2))
    window = s.maybe(s.floats(frame)) if parts == 1 else None
    return Node({"onesided": onesided},
                {"X": s.floats(s.between(1, 3), length, parts), "step": np.array(s.between(1, 9), np.int64),
                 "window": window, "length": np.array(frame, np.int64) if window is None else s.maybe(np.array(frame))},
                17)


def window_function(s):
    kind = s.one(TensorProto.FLOAT, TensorProto.DOUBLE)
    return Node({"periodic": s.below(2), "output_datatype": kind}, {"size": np.array(s.between(2, 50), s.one(np.int64, np.int32))},
                17, out_type=kind)


def mel_weight_matrix(s):
    rate = s.one(8000, 16000)
    number = lambda value, dtype=np.int64: np.array(value, dtype)
    return Node({}, {"bins": number(s.between(1, 30)), "length": number(s.between(32, 400)), "rate": number(rate),
                     "lower": number(s.between(1, 300) + 0.37, np.float32), "upper": number(s.between(2000, rate // 2) - 0.37, np.float32)},
                17, out_type=TensorProto.FLOAT)


def affine_grid(s):
    rank, batch = s.one(2, 3), s.between(1, 3)
    size = np.array([batch, 2, *s.sizes(rank, 2)], np.int64)
    return Node({"align_corners": s.below(2)}, {"theta": s.floats(batch, rank, rank + 1), "size": size}, 20)


def center_crop_pad(s):
    dims = s.sizes(s.between(1, 4))
    axes = sorted(s.random.permutation(len(dims))[:s.between(1, len(dims))].tolist())
    given = s.below(2)
    shape = np.array(s.sizes(len(axes) if given else len(dims)), s.one(np.int64, np.int32))
    return Node({"axes": [a - s.one(0, len(dims)) for a in axes]} if given else {},
                {"X": s.floats(*dims, dtype=s.one(np.float32, np.float64)), "shape": shape.astype(np.int64)}, 18)


def lp_pool(s):
    opset, spatial = s.one(7, 11, 18, 22), s.sizes(s.one(1, 2, 2, 3), 3, 12)
    kernel, attributes = s.window(spatial, ("strides", "dilations", "pads") if opset >= 18 else ("strides", "pads"))
    return Node(attributes | {"kernel_shape": kernel, "p": s.between(1, 4)},
                {"X": s.floats(s.between(1, 3), s.between(1, 4), *spatial)}, opset)


def global_lp_pool(s):
    return Node({"p": s.between(1, 4)}, {"X": s.floats(*s.sizes(s.between(3, 5)))}, s.one(7, 21))


def max_unpool(s):
    dims = [s.between(1, 2), s.between(1, 3), *s.sizes(s.one(1, 2, 3), 1, 6)]
    kernel, strides = [s.between(1, 3) for _ in dims[2:]], [s.between(1, 3) for _ in dims[2:]]
    whole = int(np.prod(dims[:2] + [(n - 1) * t + k for n, t, k in zip(dims[2:], strides, kernel)]))
    indices = s.random.permutation(whole)[:int(np.prod(dims))].reshape(dims) if whole >= np.prod(dims) else None
    if indices is None:
        return max_unpool(s)
    return Node({"kernel_shape": kernel, "strides": strides}, {"X": s.floats(*dims), "I": indices}, s.one(9, 11, 22))


def mean_variance_normalization(s):
    dims = s.sizes(4, 2)
    axes = sorted(s.random.permutation(4)[:s.between(1, 4)].tolist())
    return Node({"axes": axes} if s.below(2) else {}, {"X": s.floats(*dims)}, s.one(9, 13))


def loss(s, outputs):
    batch, classes, extra = s.between(1, 4), s.between(2, 7), s.sizes(s.between(0, 2), 1, 5)
    target = s.random.integers(0, classes, [batch, *extra]).astype(s.one(np.int64, np.int32))
    attributes = {"reduction": s.one("none", "sum", "mean")}
    if s.below(2):
        attributes["ignore_index"] = s.one(0, 1)
        target.flat[0] = 1 - attributes["ignore_index"]
    x = -np.abs(s.floats(batch, classes, *extra, dtype=s.one(np.float32, np.float64)))
    weight = np.abs(s.floats(classes)).astype(x.dtype) + x.dtype.type(0.1)
    return Node(attributes, {"X": x, "target": target, "weight": s.maybe(weight)}, s.one(12, 13), outputs)


def linear_attention(s):
    rule, heads, group = s.one("linear", "gated", "delta", "gated_delta"), s.between(1, 2), s.between(1, 2)
    batch, steps, key, value = s.between(1, 2), s.between(1, 6), s.between(2, 5), s.between(2, 5)
    gated, delta = "gated" in rule, "delta" in rule
    return Node({"update_rule": rule, "q_num_heads": heads * group, "kv_num_heads": heads},
                {"query": s.floats(batch, steps, heads * group * key), "key": s.floats(batch, steps, heads * key, scale=0.4),
                 "value": s.floats(batch, steps, heads * value), "past": s.maybe(s.floats(batch, heads, key, value)),
                 "decay": -np.abs(s.floats(batch, steps, heads * s.one(1, key))) if gated else None,
                 "beta": np.abs(s.floats(batch, steps, s.one(1, heads), scale=0.3)) if delta else None}, 27, 2)


def causal_conv(s):
    batch, channels, length, kernel = s.between(1, 3), s.between(1, 5), s.between(1, 9), s.between(2, 4)
    return Node({"activation": s.one("none", "silu")},
                {"X": s.floats(batch, channels, length), "W": s.floats(channels, 1, kernel), "B": s.maybe(s.floats(channels)),
                 "past": s.maybe(s.floats(batch, channels, kernel - 1))}, 27, 2)


OPERATORS = {
    "GridSample": grid_sample, "RoiAlign": roi_align, "MaxRoiPool": max_roi_pool, "DeformConv": deform_conv,
    "Col2Im": col2im, "NonMaxSuppression": non_max_suppression, "DFT": dft, "STFT": stft,
    "HannWindow": window_function, "HammingWindow": window_function, "BlackmanWindow": window_function,
    "MelWeightMatrix": mel_weight_matrix, "AffineGrid": affine_grid, "CenterCropPad": center_crop_pad,
    "LpPool": lp_pool, "GlobalLpPool": global_lp_pool, "MaxUnpool": max_unpool,
    "MeanVarianceNormalization": mean_variance_normalization,
    "NegativeLogLikelihoodLoss": lambda s: loss(s, 1), "SoftmaxCrossEntropyLoss": lambda s: loss(s, s.one(1, 2)),
    "LinearAttention": linear_attention, "CausalConvWithState": causal_conv,
}


def difference(reference, ours):
    """The largest relative RMS; 0 for two empty tensors of one shape."""
    pairs = [(reference[name], ours[name]) for name in reference]
    return max(0.0 if r.size == 0 and r.shape == o.shape else relative_rms(r, o) for r, o in pairs)


def main():
    onnxruntime.set_default_logger_severity(3)
    oracle = Oracle()
    for number, (op, make) in enumerate(OPERATORS.items()):
        source, errors, refused = Source(100 + number), [], []
        for i in range(NODES):
            node = make(source)
            path = node.write(oracle.folder / "m.onnx", op)
            try:
                reference = answers(session(path), node.feeds())
            except Exception as e:  # ONNX Runtime's own types
                refused.append(str(e))
                continue
            what = f"{op} {i} {node}"
            try:
                ours = oracle.outputs(path, node.feeds())
            except RuntimeError as e:
                oracle.check(what, False, str(e)[-200:])
                continue
            error = difference(reference, ours)
            errors.append(error)
            oracle.check(what, error <= 1e-5, f"relative RMS {error:.2e}")
        if refused:
            print(f"{op}: ONNX Runtime does not run {len(refused)} of {NODES}: {refused[0][:160]}")
        if op not in LACKING:
            oracle.check(f"{op} runs", len(errors) > 0)
        if errors:
            print(f"{op}: largest relative RMS of {len(errors)} nodes {max(errors):.1e}")
        else:
            print(f"NOT RUN: {op}: ONNX Runtime lacks it")
    print("NOT RUN: Bernoulli, Multinomial, RandomNormal, RandomUniform: their numbers are each runtime's own")
    oracle.finish()


main()
