"""Codes, scales and zero points in files written by Nibble against a plain NumPy rendering of the rules, bit for bit.

Usage: numerics_oracle.py NIBBLE [SHARED_MODELS SOURCE_DIR] [--work DIR]

Makes models of random weights (MatMul, Gemm, Conv; many shapes, tails included), quantizes them with `nibble quantize`
over formats x group sizes x schemes x output forms, and reads the written tensors back with the onnx package. They must
equal what the rules below give. Then ONNX Runtime dequantizes each of them, in a model that holds the
DequantizeLinear alone, and must equal NumPy's (code - zero_point) * scale. The rules, for a group of values that share a
scale (low and high are its extremes and 0):

  symmetric 8 bits   scale = max(|low|, |high|) / 127, codes -127..127
  symmetric 4 bits   scale = max(high / 7, -low / 8), codes -8..7; where the target takes negative scales also
                     v / -8, v the value of largest magnitude, and the one with the smaller squared error is kept
  unsigned           the same, 2^(bits-1) added to codes and zero point
  asymmetric         scale = (high - low) / (levels - 1), zero point = clip(round(qmin - low / scale)); int4 as uint4
  code               clip(round(x / scale) + zero point), round half to even, x / scale in float32

Scales are computed in float64 and rounded once to their type, at least its smallest normal number (float16: its
smallest number at all); 1 for zeros.
"""
import argparse
import collections
import itertools
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

MATRICES = [(64, 48), (100, 33), (33, 7), (1, 5), (32, 1), (129, 64), (250, 17), (3, 3), (700, 9), (257, 515)]
KERNELS = [(8, 16, 3, 3), (5, 3, 3, 3), (16, 64, 1, 1), (6, 1, 5, 5), (3, 40, 1, 3), (1, 9, 2, 2)]
ONNX_RUNTIME_TARGET = "onnxruntime-cpu"

Weight = collections.namedtuple("Weight", "op node array")  # array as it is in the model
Setting = collections.namedtuple("Setting", "weights group scheme emit target scale_type model")


def random_values(rng, shape, dtype):
    """Normal values; runs of zeros, of halves that tie, of two magnitudes only, of tiny and of large ones."""
    flat = rng.standard_normal(int(np.prod(shape)))
    start = 0
    while start < flat.size:
        end = start + int(rng.integers(1, 200))
        part = flat[start:end]
        kind = rng.integers(7)
        if kind == 0:
            part[:] = 0
        elif kind == 1:
            part[:] = rng.integers(-15, 16, part.size) * 0.5
        elif kind == 2:
            part[:] = np.where(part > 0, 0.375, -0.375)
        elif kind == 3:
            part *= 1e-6 if dtype == np.float16 else 1e-41
        elif kind == 4:
            part *= 300
        start = end
    return flat.reshape(shape).astype(dtype)


def make_model(path, dtype, rng):
    """Every shape once for each operator that has it, each with an input and an output of its own."""
    weights, nodes, inits, inputs, outputs = [], [], [], [], []
    elem = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))

    def add(op, shape, x_shape, y_rank, **attributes):
        name = f"{op}_{len(weights)}"
        array = random_values(rng, shape, dtype)
        inits.append(numpy_helper.from_array(array, name + ".w"))
        inputs.append(helper.make_tensor_value_info(name + ".x", elem, x_shape))
        outputs.append(helper.make_tensor_value_info(name + ".y", elem, [None] * y_rank))
        nodes.append(helper.make_node(op, [name + ".x", name + ".w"], [name + ".y"], name=name, **attributes))
        label = op + ("T" if attributes.get("transB") else "")
        weights.append(Weight(label, name, array))

    for k, n in MATRICES:
        add("MatMul", (k, n), [2, k], 2)
        add("Gemm", (k, n), [2, k], 2)
        add("Gemm", (n, k), [2, k], 2, transB=1)
    for m, c, h, w in KERNELS:
        add("Conv", (m, c, h, w), [1, c, 6, 6], 4)
    graph = helper.make_graph(nodes, "random", inputs, outputs, inits)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return weights


# The rules.

def stored_scale(value, scale_dtype):
    limits = np.finfo(scale_dtype)
    smallest = limits.smallest_subnormal if scale_dtype == np.float16 else limits.smallest_normal
    scale = scale_dtype(value)
    return np.copysign(smallest, value).astype(scale_dtype) if abs(scale) < smallest else scale


def code_range(s):
    bits = int(s.weights[-1])
    signed = not s.weights.startswith("u") and not (bits == 4 and s.scheme == "asymmetric")
    low = -2**(bits - 1) if signed else 0
    high = low + 2**bits - 1
    if s.scheme == "symmetric" and bits == 8:
        low += 1
    return low, high


def codes_of(x, scale, zero, low, high):
    ratio = x.astype(np.float32) / np.asarray(scale).astype(np.float32)
    return np.clip(np.rint(ratio).astype(np.int64) + zero, low, high)


def squared_error(x, scale, zero, low, high):
    back = (codes_of(x, scale, zero, low, high) - zero).astype(np.float32) * np.float32(scale)
    total = 0.0
    for e in x.astype(np.float64) - back.astype(np.float64):
        total += e * e
    return total


def choose(x, s, scale_dtype):
    """Scale and zero point of one group, x in index order."""
    bits = int(s.weights[-1])
    qmin, qmax = code_range(s)
    low = min(0.0, float(x.min()))
    high = max(0.0, float(x.max()))
    if s.scheme == "asymmetric":
        scale = scale_dtype(1) if low == high else stored_scale((high - low) / (2**bits - 1), scale_dtype)
        return scale, int(np.clip(np.rint(qmin - low / float(scale)), qmin, qmax))
    zero = 2**(bits - 1) if s.weights.startswith("u") else 0
    if low == high:
        return scale_dtype(1), zero
    if bits == 8:
        return stored_scale(max(high, -low) / 127, scale_dtype), zero
    scale = stored_scale(max(high / 7, -low / 8), scale_dtype)
    if s.target == ONNX_RUNTIME_TARGET:
        other = stored_scale((high if high >= -low else low) / -8, scale_dtype)
        if squared_error(x, other, zero, qmin, qmax) < squared_error(x, scale, zero, qmin, qmax):
            scale = other
    return scale, zero


def quantize(matrix, s, scale_dtype, block, in_index_order):
    """matrix: [channels, reduction]. Codes of its shape, scales and zero points [channels, blocks]."""
    n, k = matrix.shape
    blocks = -(-k // block)
    scales = np.zeros((n, blocks), scale_dtype)
    zeros = np.zeros((n, blocks), np.int64)
    if s.group == "tensor":
        scales[:], zeros[:] = choose(in_index_order, s, scale_dtype)
    elif s.group == "channel":
        for c in range(n):
            scales[c], zeros[c] = choose(matrix[c], s, scale_dtype)
    else:
        for c, b in itertools.product(range(n), range(blocks)):
            scales[c, b], zeros[c, b] = choose(matrix[c, b * block:(b + 1) * block], s, scale_dtype)
    each = np.repeat(scales, block, axis=1)[:, :k]
    zero = np.repeat(zeros, block, axis=1)[:, :k]
    return codes_of(matrix, each, zero, *code_range(s)), scales, zeros


# Reading what was written.

class Written:
    def __init__(self, path):
        self.model = onnx.load(path)
        self.inits = {i.name: i for i in self.model.graph.initializer}
        self.by_output = {o: n for n in self.model.graph.node for o in n.output}
        self.by_name = {n.name: n for n in self.model.graph.node}

    def array(self, name):
        return numpy_helper.to_array(self.inits[name])

    def dequantize_before(self, name):
        node = self.by_output.get(name)
        while node is not None and node.op_type in ("Reshape", "Cast"):
            node = self.by_output.get(node.input[0])
        return node

    @staticmethod
    def attributes(node):
        return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def integers(array):
    return array.astype(np.int64)


def same(what, got, want, problems):
    got, want = np.asarray(got), np.asarray(want)
    if got.shape != want.shape:
        problems.append(f"{what}: shape {got.shape} is not {want.shape}")
    elif np.ascontiguousarray(got).tobytes() != np.ascontiguousarray(want).tobytes():  # signs of zero count too
        differ = np.argwhere(got != want)
        where = tuple(int(i) for i in differ[0]) if len(differ) else "a zero's sign"
        problems.append(f"{what}: {len(differ)} of {got.size} differ, first at {where}")


def run_dequantize(written, node, scale_dtype, codes_shape):
    """ONNX Runtime's result of this DequantizeLinear alone."""
    inits = [written.inits[i] for i in node.input]
    elem = helper.np_dtype_to_tensor_dtype(np.dtype(scale_dtype))
    value = helper.make_tensor_value_info(node.output[0], elem, codes_shape)
    graph = helper.make_graph([node], "dequantize", [], [value], inits)
    model = helper.make_model(graph, opset_imports=written.model.opset_import, ir_version=written.model.ir_version)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {})[0]


def check_qdq(written, weight, s, scale_dtype):
    """The problems of one weight stored as DequantizeLinear."""
    problems = []
    conv = weight.op == "Conv"
    transposed = weight.op == "GemmT"
    array = weight.array
    matrix = array.reshape(array.shape[0], -1) if conv else array if transposed else array.T
    n, k = matrix.shape
    setting = s
    if s.group.isdigit() and k <= int(s.group):
        setting = s._replace(group="channel")  # a single group is a channel
    grouped = setting.group.isdigit()
    block = int(setting.group) if grouped else k
    codes, scales, zeros = quantize(matrix, setting, scale_dtype, block, array.reshape(-1))

    consumer = written.by_name[weight.node]
    node = written.dequantize_before(consumer.input[1])
    if node is None or node.op_type != "DequantizeLinear":
        return [f"its reader reads {node.op_type if node else 'no DequantizeLinear'}"]
    attributes = Written.attributes(node)
    if transposed and Written.attributes(consumer).get("transB", 0) != 0:
        problems.append("transB is still set")
    axis = {"tensor": None, "channel": 0 if conv else 1}.get(setting.group, 1 if conv else 0)
    if axis is not None and attributes.get("axis") != axis:
        problems.append(f"axis {attributes.get('axis')} is not {axis}")
    if attributes.get("block_size", 0) != (block if grouped else 0):
        problems.append(f"block_size {attributes.get('block_size')}")

    def laid_out(parameters):
        if setting.group == "tensor":
            return parameters[0, 0]
        if setting.group == "channel":
            return parameters[:, 0]
        return parameters if conv else parameters.T

    shape = (n, k) if conv and grouped else array.shape if conv else (k, n)
    want_codes = codes.reshape(shape) if conv else codes.T
    got = written.array(node.input[0])
    dtype = written.inits[node.input[0]].data_type
    bits = int(s.weights[-1])
    signed = code_range(s)[0] < 0
    want_dtype = {(4, True): TensorProto.INT4, (4, False): TensorProto.UINT4, (8, True): TensorProto.INT8,
                  (8, False): TensorProto.UINT8}[bits, signed]
    if dtype != want_dtype:
        problems.append(f"codes of type {dtype}, not {want_dtype}")
    same("codes", integers(got), want_codes, problems)
    got_scales = written.array(node.input[1])
    if got_scales.dtype != scale_dtype:
        problems.append(f"scales are {got_scales.dtype}")
    same("scales", got_scales, laid_out(scales), problems)
    if s.scheme == "symmetric" and signed:
        if len(node.input) > 2 and node.input[2]:
            problems.append("zero points that are not needed")
    elif len(node.input) < 3:
        problems.append("no zero points")
    else:
        same("zero points", integers(written.array(node.input[2])), laid_out(zeros), problems)

    each = np.repeat(scales, block, axis=1)[:, :k].astype(np.float32)
    offset = (codes - np.repeat(zeros, block, axis=1)[:, :k]).astype(np.float32)
    back = (offset * each).astype(scale_dtype)
    same("ONNX Runtime's values", run_dequantize(written, node, scale_dtype, shape),
         back.reshape(shape) if conv else back.T, problems)
    return problems


def unpack(packed, bits):
    """The last axis, low bits first."""
    if bits == 8:
        return packed.astype(np.int64)
    return np.stack([packed & 15, packed >> 4], axis=-1).reshape(*packed.shape[:-1], -1).astype(np.int64)


def run_nbits(written, node, dtype, k):
    """What MatMulNBits makes of the identity: its weight, dequantized by ONNX Runtime."""
    inits = [written.inits[i] for i in node.input[1:4] if i]
    elem = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    alone = helper.make_node("MatMulNBits", ["eye"] + list(node.input[1:4]), ["y"], domain="com.microsoft",
                             **dict(Written.attributes(node), accuracy_level=1))
    graph = helper.make_graph([alone], "nbits", [helper.make_tensor_value_info("eye", elem, [k, k])],
                              [helper.make_tensor_value_info("y", elem, [k, None])], inits)
    model = helper.make_model(graph, opset_imports=written.model.opset_import, ir_version=written.model.ir_version)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"eye": np.eye(k, dtype=dtype)})[0]


def nbits_block(s, k, bits):
    """A group, or the smallest block that holds a shorter reduction; for one scale a channel or tensor the block up to 128
    that makes a row of codes and float32 scales shortest, the larger on a tie."""
    if s.group.isdigit():
        return min(int(s.group), max(16, 1 << (k - 1).bit_length()))
    return min((128, 64, 32, 16), key=lambda block: -(-k // block) * (block * bits // 8 + 4))


def check_nbits(written, weight, s, scale_dtype):
    problems = []
    array = weight.array
    matrix = array if weight.op == "GemmT" else array.T
    n, k = matrix.shape
    bits = int(s.weights[-1])
    block = nbits_block(s, k, bits)
    codes, scales, zeros = quantize(matrix, s, scale_dtype, block, array.reshape(-1))
    shift = 2**(bits - 1) if code_range(s)[0] < 0 else 0
    codes, zeros = codes + shift, zeros + shift
    blocks = scales.shape[1]

    node = written.by_name[weight.node]
    if node.op_type != "MatMulNBits":
        return [f"its reader is {node.op_type}"]
    a = Written.attributes(node)
    if (a["K"], a["N"], a["bits"], a["block_size"]) != (k, n, bits, block):
        problems.append(f"attributes {a}")
    packed = written.array(node.input[1])
    if packed.dtype != np.uint8 or packed.shape != (n, blocks, block * bits // 8):
        return problems + [f"codes are {packed.dtype}{packed.shape}"]
    got = unpack(packed.reshape(n, -1), bits)
    same("codes", got[:, :k], codes, problems)
    same("filler", got[:, k:], np.repeat(zeros[:, -1:], got.shape[1] - k, axis=1), problems)
    same("scales", written.array(node.input[2]).reshape(n, blocks), scales, problems)
    if s.scheme == "symmetric":
        if len(node.input) > 3 and node.input[3]:
            problems.append("zero points that are not needed")
        if not np.all(zeros == 2**(bits - 1)):
            problems.append("the zero point is not the one meant by none")
    else:
        zero = unpack(written.array(node.input[3]).reshape(n, -1), bits)
        same("zero points", zero[:, :blocks], zeros, problems)
        same("zero points' filler", zero[:, blocks:], zero[:, blocks:] * 0, problems)
    if scale_dtype == np.float32:
        each = np.repeat(scales, block, axis=1)[:, :k]
        back = (codes - np.repeat(zeros, block, axis=1)[:, :k]).astype(np.float32) * each
        y = run_nbits(written, node, scale_dtype, k).T
        # The kernel may multiply out (code - zero point) * scale: one rounding more than NumPy's.
        bound = 4 * np.finfo(np.float32).eps * (2**bits) * np.abs(each) + 1e-37
        if np.any(np.abs(y - back) > bound):
            problems.append(f"ONNX Runtime's values: off by up to {np.abs(y - back).max()}")
    return problems


def settings():
    formats, schemes = ["int4", "uint4", "int8", "uint8"], ["symmetric", "asymmetric"]
    groups = ["32", "128", "16", "48", "channel", "tensor"]
    for weights, scheme, group in itertools.product(formats, schemes, groups):
        yield Setting(weights, group, scheme, "qdq", "portable", None, "float32")
        if group != "48":  # not a block of MatMulNBits
            yield Setting(weights, group, scheme, "nbits", "portable", None, "float32")
    for weights, group in itertools.product(["int4", "uint4"], ["32", "channel", "tensor"]):
        for emit in ["qdq", "nbits"]:
            yield Setting(weights, group, "symmetric", emit, ONNX_RUNTIME_TARGET, None, "float32")
    for weights, scheme, group in itertools.product(["int4", "int8"], schemes, ["32", "channel"]):
        yield Setting(weights, group, scheme, "qdq", "portable", "fp16", "float32")
        yield Setting(weights, group, scheme, "qdq", "portable", None, "float16")
        yield Setting(weights, group, scheme, "nbits", "portable", None, "float16")
    yield Setting("int4", "32", "symmetric", "qdq", ONNX_RUNTIME_TARGET, "fp16", "float32")


def quantize_file(nibble, source, out, s):
    command = [nibble, "quantize", source, "-o", out, "--weights", s.weights, "--group-size", s.group, "--scheme",
               s.scheme, "--emit", s.emit, "--target", s.target, "--quiet"]
    if s.scale_type:
        command += ["--scale-type", s.scale_type]
    return subprocess.run(command, capture_output=True, text=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("nibble", type=pathlib.Path)
    parser.add_argument("unused", nargs="*", help="what every oracle is given")
    parser.add_argument("--work", type=pathlib.Path, help="where files are kept; default: a temporary folder")
    args = parser.parse_args()
    passed = failed = 0
    with tempfile.TemporaryDirectory() as temporary:
        work = args.work or pathlib.Path(temporary)
        work.mkdir(parents=True, exist_ok=True)
        sources = {}
        for name in ["float32", "float16"]:
            path = work / f"{name}.onnx"
            sources[name] = path, make_model(path, np.dtype(name).type, np.random.default_rng(20))
        for s in settings():
            path, weights = sources[s.model]
            out = work / "out.onnx"
            out.unlink(missing_ok=True)
            result = quantize_file(args.nibble, path, out, s)
            if result.returncode != 0:
                failed += len(weights)
                print(f"FAILED {s}: exit {result.returncode}: {result.stderr.strip()}")
                continue
            written = Written(out)
            scale_dtype = np.float16 if s.scale_type == "fp16" or s.model == "float16" else np.float32
            for weight in weights:
                nbits = s.emit == "nbits" and weight.op != "Conv"
                problems = (check_nbits if nbits else check_qdq)(written, weight, s, scale_dtype)
                passed += not problems
                failed += bool(problems)
                if problems:
                    print(f"FAILED {s}, {weight.op} {weight.array.shape}: {'; '.join(problems)}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
