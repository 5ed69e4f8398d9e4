"""Our operators on quantized numbers against ONNX Runtime, with random, extreme and saturating codes.

ONNX Runtime keeps sums from saturating on machines without VNNI when it is asked to, and when weights are constants; but
it fails on int8 weights beside int8 activations then, which are tested with small weights instead.

Integer sums, quantization and what moves codes around are exactly equal. Operators that requantize are within one step,
and in all the cases of one operator together at most 0.1 % of the elements are that far off. What ends in floats is
within a relative RMS of 1e-5.
"""

import itertools

import numpy as np
from onnx import TensorProto, helper

from common import Oracle, answers, relative_rms, save, session
from node_case import MS, Case

RANDOM = np.random.default_rng(11)
CODES = (np.uint8, np.int8)
EXACT, STEP, FLOAT = "exact", "step", "float"
MOST_STEPS = 1e-3


def codes(dtype, *dims, extreme=False):
    """Random codes, or only those at the ends of the range."""
    info = np.iinfo(dtype)
    if extreme:
        return RANDOM.choice(np.array([info.min, info.max], dtype), dims)
    return RANDOM.integers(info.min, info.max + 1, dims).astype(dtype)


def weights(left, right, *dims, extreme=False):
    """Constants to be multiplied by codes of type `left`."""
    if left == np.int8 and right == np.int8:
        return RANDOM.choice(np.array([-64, 63], np.int8), dims) if extreme else codes(right, *dims) >> 1
    return codes(right, *dims, extreme=extreme)


def code(dtype):
    return codes(dtype, 1)[0].reshape(())


def scale(low=0.005, high=0.05, *dims):
    return np.asarray(RANDOM.uniform(low, high, dims), np.float32)


def normal(*dims):
    return RANDOM.standard_normal(dims).astype(np.float32)


def onnx_case(what, op, inputs, outputs=1, limit=EXACT, constants=(), **attributes):
    # ONNX Runtime keeps sums from saturating in QLinearMatMul's first version alone.
    opset = 13 if op == "QLinearMatMul" else 21
    return Case(what, op, inputs, outputs, "", opset, constants, limit, **attributes)


# --- Exact: sums, quantization, codes moved around ---

PRODUCTS = [((5, 7), (7, 3)), ((64, 300), (300, 70)), ((1, 129), (129, 33)), ((2, 3, 6, 20), (2, 3, 20, 17)),
            ((4, 6, 20), (20, 9)), ((3, 1, 5, 8), (2, 8, 4)), ((97, 1025), (1025, 18))]


def integer_products():
    for (a, b), left, right, extreme in itertools.product(PRODUCTS, CODES, CODES, [False, True]):
        x, w = codes(left, *a, extreme=extreme), codes(right, *b, extreme=extreme)
        for zeros in (None, (code(left), code(right)), (code(left), codes(right, b[-1]))):
            if zeros is not None and zeros[1].ndim == 1 and len(b) > 2:
                continue  # not in ONNX Runtime
            yield onnx_case(f"{a} {b} {left.__name__} {right.__name__} {extreme} {zeros}", "MatMulInteger",
                            [x, w, *(zeros or [])], constants=(1, 3))


CONVS = [
    ((1, 3, 9, 11), (8, 3, 3, 3), {"pads": [1, 1, 1, 1]}),
    ((2, 6, 17, 15), (10, 3, 3, 5), {"group": 2, "strides": [2, 1], "pads": [0, 2, 1, 1], "dilations": [1, 2]}),
    ((1, 16, 14, 14), (40, 16, 1, 1), {}),
    ((1, 16, 28, 28), (16, 1, 3, 3), {"group": 16, "pads": [1, 1, 1, 1], "strides": [2, 2]}),
    ((2, 8, 10, 10), (24, 1, 5, 3), {"group": 8, "auto_pad": "SAME_UPPER"}),
    ((1, 4, 40), (6, 4, 7), {"pads": [3, 3]}),
    ((1, 2, 5, 6, 7), (4, 2, 2, 3, 3), {"pads": [1, 0, 1, 0, 1, 1]}),
    ((1, 70, 20, 20), (33, 70, 3, 3), {"pads": [1, 1, 1, 1]}),
    ((1, 4, 20, 24), (4, 1, 17, 17), {"group": 4}),
]


def integer_convs():
    for (x, w, attributes), right, extreme in itertools.product(CONVS, CODES, [False, True]):
        data, weight = codes(np.uint8, *x, extreme=extreme), codes(right, *w, extreme=extreme)
        for zeros in ([], [code(np.uint8)], [code(np.uint8), code(right)]):
            if right == np.int8 and len(zeros) > 1:
                zeros[1] = np.zeros((), np.int8)  # the only one that ONNX Runtime takes
            yield onnx_case(f"{x} {w} {right.__name__} {extreme} {zeros}", "ConvInteger", [data, weight, *zeros],
                            constants=(1, 3), **attributes)


def floats_around(scales, dtype, count):
    """Normal values, halves of steps, far too large ones, infinities and NaN."""
    info = np.iinfo(dtype)
    halves = (RANDOM.integers(max(info.min, -3000) - 3, min(info.max, 3000) + 3, count) + 0.5) * scales
    edges = np.array([info.min - 0.5, info.min - 1.5, info.max + 0.5, info.max + 1.5, 0, 0.5, -0.5, 1.5, 2.5]) * scales
    odd = [np.inf, -np.inf, np.nan, 1e30, -1e30, 1e-40, 3e9, -3e9]
    return np.concatenate([normal(count) * 100 * scales, halves, edges, odd]).astype(np.float32)


def quantization():
    for dtype in (np.uint8, np.int8, np.uint16, np.int16):
        for step in (0.25, 0.1, 3.7e-3, 2.0**-20):
            x = floats_around(step, dtype, 300)
            for zero in (np.zeros((), dtype), code(dtype)):
                yield onnx_case(f"{dtype.__name__} {step} {zero}", "QuantizeLinear", [x, np.float32(step), zero])
        for axis, count in ((0, 5), (1, 6), (-1, 7)):
            scales, zeros = scale(0.01, 0.1, count), codes(dtype, count)
            yield onnx_case(f"{dtype.__name__} axis {axis}", "QuantizeLinear", [normal(5, 6, 7), scales, zeros], axis=axis)
            yield onnx_case(f"{dtype.__name__} axis {axis}", "DequantizeLinear", [codes(dtype, 5, 6, 7), scales, zeros],
                            axis=axis)
        for axis, dims in ((0, (2, 6, 7)), (1, (5, 2, 7))):
            scales, zeros = scale(0.01, 0.1, *dims), codes(dtype, *dims)
            yield onnx_case(f"{dtype.__name__} blocks {axis}", "QuantizeLinear", [normal(5, 6, 7), scales, zeros],
                            axis=axis, block_size=3)
            yield onnx_case(f"{dtype.__name__} blocks {axis}", "DequantizeLinear", [codes(dtype, 5, 6, 7), scales, zeros],
                            axis=axis, block_size=3)
        yield onnx_case(dtype.__name__, "DequantizeLinear", [codes(dtype, 999), scale(), code(dtype)])
    yield onnx_case("int32", "DequantizeLinear", [codes(np.int32, 999), scale()])
    for x in (normal(1000), normal(33) + 5, normal(33) - 5, np.zeros(5, np.float32), 1e-30 * normal(50), 1e30 * normal(50),
              np.arange(-127, 128, 0.5, np.float32), np.arange(0, 255, 0.5, np.float32)):
        yield onnx_case(f"{x[:2]}", "DynamicQuantizeLinear", [x.astype(np.float32)], 3)


def moved():
    for dtype in CODES:
        x, name = codes(dtype, 2, 6, 9, 10), dtype.__name__
        yield onnx_case(name, "Transpose", [x], perm=[2, 0, 3, 1])
        yield onnx_case(name, "Reshape", [x, np.array([3, -1, 20])])
        yield onnx_case(name, "Slice", [x, np.array([5, 1]), np.array([0, 9]), np.array([1, 3]), np.array([-2, 3])])
        yield onnx_case(name, "Concat", [x, codes(dtype, 2, 3, 9, 10)], axis=1)
        yield onnx_case(name, "Gather", [x, np.array([[3, -1], [0, 2]])], axis=2)
        yield onnx_case(name, "Pad", [x, np.array([0, 1, 2, 3, 1, 0, 2, 1]), code(dtype)])
        yield onnx_case(name, "Pad", [x, np.array([0, 0, 2, 3, 0, 0, 2, 1])], mode="reflect")
        yield onnx_case(name, "Split", [x], 2, axis=1, num_outputs=2)
        for attributes in ({"strides": [2, 2], "pads": [1, 0, 1, 2]}, {"dilations": [2, 1], "ceil_mode": 1},
                           {"auto_pad": "SAME_LOWER", "strides": [3, 2]}):
            yield onnx_case(f"{name} {attributes}", "MaxPool", [x], kernel_shape=[3, 3], **attributes)


# --- Within a step: what requantizes ---

def requantized_products():
    for (a, b), left, right, extreme in itertools.product(PRODUCTS, CODES, CODES, [False, True]):
        if left == np.int8 and right == np.uint8:
            continue  # not in ONNX Runtime
        x, w = codes(left, *a, extreme=extreme), weights(left, right, *b, extreme=extreme)
        spread = 127 * 127 * a[-1] ** 0.5
        for columns in ((), (b[-1],)):
            if columns and len(b) > 2:
                continue
            yield onnx_case(f"{a} {b} {left.__name__} {right.__name__} {extreme} {columns}", "QLinearMatMul",
                            [x, np.float32(0.02), code(left), w, scale(0.01, 0.03, *columns),
                             np.asarray(codes(right, *columns), right), np.float32(spread * 4e-4 / 60), code(left)],
                            limit=STEP, constants=(3, 4, 5))


def requantized_convs():
    for (x, w, attributes), (left, right), extreme in itertools.product(
            CONVS, [(np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8)], [False, True]):
        data, weight = codes(left, *x, extreme=extreme), weights(left, right, *w, extreme=extreme)
        filters, spread = w[0], 127 * 127 * np.prod(w[1:]) ** 0.5
        bias = RANDOM.integers(-int(spread), int(spread), filters).astype(np.int32)
        for per_filter, with_bias in itertools.product([False, True], [False, True]):
            dims = (filters,) if per_filter else ()
            zeros = np.zeros(dims, right) if per_filter else code(right)  # zero points by filter have to be equal
            yield onnx_case(f"{x} {w} {left.__name__} {right.__name__} {extreme} {per_filter} {with_bias}", "QLinearConv",
                            [data, np.float32(0.02), code(left), weight, scale(0.01, 0.03, *dims), zeros,
                             np.float32(spread * 4e-4 / 60), code(left)] + [bias] * with_bias,
                            limit=STEP, constants=(3, 4, 5, 8), **attributes)


def gemms():
    for (left, right), columns, trans_a, trans_b in itertools.product(
            [(np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8)], [(), (21,)], [0, 1], [0, 1]):
        m, n, k = 13, 21, 150
        a = codes(left, *((k, m) if trans_a else (m, k)))
        b = weights(left, right, *((n, k) if trans_b else (k, n)))
        for c in (None, (n,), (1, n), (m, 1), (m, n)):
            added = None if c is None else RANDOM.integers(-10**5, 10**5, c).astype(np.int32)
            inputs = [a, np.float32(0.02), code(left), b, scale(0.01, 0.03, *columns),
                      np.asarray(codes(right, *columns), right), added]
            what = f"{left.__name__} {right.__name__} {columns} {trans_a}{trans_b} {c}"
            attributes = {"transA": trans_a, "transB": trans_b, "alpha": 1.5 if c is None else 1.0}
            attributes["constants"] = (3, 4, 5)
            yield Case(what, "QGemm", inputs + [np.float32(1.5), code(left)], limit=STEP, **attributes)
            yield Case(what + " float", "QGemm", inputs[:6 if c is None else 7], limit=FLOAT, **attributes)


def elementwise():
    for dtype, op in itertools.product(CODES, ["QLinearAdd", "QLinearMul"]):
        high = 0.05 if op == "QLinearAdd" else 0.2
        for a, b in (((3, 7, 40), (3, 7, 40)), ((3, 7, 40), (40,)), ((3, 1, 40), (7, 1)), ((5, 6), ()), ((1,), (999,))):
            # ONNX Runtime takes none without zero points.
            yield Case(f"{dtype.__name__} {a} {b}", op,
                       [codes(dtype, *a), scale(0.005, high), code(dtype), np.asarray(codes(dtype, *b), dtype),
                        scale(0.005, high), code(dtype), scale(0.02, 0.1), code(dtype)], limit=STEP)
    for dtype, zeros in itertools.product(CODES, [True, False]):
        zero = lambda: code(dtype) if zeros else None
        for _ in range(3):
            x = codes(dtype, 5, 300)
            yield Case(f"{dtype.__name__} {zeros}", "QLinearSigmoid", [x, scale(0.01, 0.1), zero(), scale(1 / 300, 1 / 200),
                                                                    zero()], limit=STEP)
            yield Case(f"{dtype.__name__} {zeros}", "QLinearLeakyRelu", [x, scale(), zero(), scale(), zero()], limit=STEP,
                       alpha=0.2)


def concats():
    for dtype, axis in itertools.product(CODES, [0, 1, -1]):
        result = [scale(), code(dtype)]
        parts = []
        for count in (3, 1, 4):
            dims = [2, 5, 6]
            dims[axis] = count
            parts += [codes(dtype, *dims), scale(), code(dtype)]
        parts[-2:] = result
        yield Case(f"{dtype.__name__} {axis}", "QLinearConcat", [*result, *parts], limit=STEP, axis=axis)


def pools():
    windows = [{"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}, {"kernel_shape": [2, 4]},
               {"kernel_shape": [3, 2], "auto_pad": "SAME_UPPER", "strides": [2, 1]},
               {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}]
    for dtype, window, last, include in itertools.product(CODES, windows, [0, 1], [0, 1]):
        x = codes(dtype, *((2, 12, 15, 5) if last else (2, 5, 12, 15)))
        yield Case(f"{dtype.__name__} {window} {last}{include}", "QLinearAveragePool",
                   [x, scale(), code(dtype), scale(), code(dtype)], limit=STEP, channels_last=last,
                   count_include_pad=include, **window)
    for dtype, dims in itertools.product(CODES, [(2, 5, 40), (2, 4, 3, 8, 6)]):
        rank = len(dims) - 2
        yield Case(f"{dtype.__name__} {dims}", "QLinearAveragePool",
                   [codes(dtype, *dims), scale(), code(dtype), scale(), code(dtype)], limit=STEP, kernel_shape=[3] * rank,
                   strides=[2] * rank)
    for dtype, last, dims in itertools.product(CODES, [0, 1], [(3, 70, 7, 9), (1, 64, 33), (2, 9, 1, 1), (1, 1, 5, 5)]):
        dims = (dims[0], *dims[2:], dims[1]) if last else dims
        yield Case(f"{dtype.__name__} {last} {dims}", "QLinearGlobalAveragePool",
                   [codes(dtype, *dims), scale(), code(dtype), scale(0.001, 0.01), code(dtype)], limit=STEP,
                   channels_last=last)


def softmaxes():
    for dtype, opset, axis, low in itertools.product(CODES, [12, 13], [0, 1, -1], [0.01, 0.2]):
        # As all quantizers have it: probabilities from the lowest code on.
        zero = np.array(np.iinfo(dtype).min, dtype)
        yield Case(f"{dtype.__name__} {opset} {axis} {low}", "QLinearSoftmax",
                   [codes(dtype, 4, 30, 50), scale(low, 2 * low), code(dtype), np.float32(1 / 256), zero], limit=STEP,
                   opset=13, **{"axis": axis, "opset_": opset})


# --- Floats ---

def float_products():
    for (a, b), right, columns, with_bias in itertools.product(PRODUCTS, CODES, [False, True], [False, True]):
        if columns and len(b) > 2:
            continue
        dims = (b[-1],) if columns else ()
        w, b_scale, b_zero = codes(right, *b), scale(0.01, 0.03, *dims), np.asarray(codes(right, *dims), right)
        bias = [normal(b[-1])] if with_bias else []
        what = f"{a} {b} {right.__name__} {columns} {with_bias}"
        yield Case(what, "DynamicQuantizeMatMul", [normal(*a) + 0.3, w, b_scale, b_zero, *bias], limit=FLOAT,
                   constants=(1, 2, 3))
        for left in CODES if right == np.int8 else (np.uint8,):
            yield Case(f"{left.__name__} {what}", "MatMulIntegerToFloat",
                       [codes(left, *a), weights(left, right, *b), np.float32(0.02), b_scale, code(left), b_zero, *bias], limit=FLOAT,
                       constants=(1, 3, 5))


def fused():
    for ta, tb, ba, bb in itertools.product([0, 1], repeat=4):
        a = (6, 2, 3, 5) if ba else (2, 3, 6, 5)
        b = (5, 2, 3, 7) if bb else (2, 3, 5, 7)
        if ta:
            a = (5, 2, 3, 6) if ba else (2, 3, 5, 6)
        if tb:
            b = (7, 2, 3, 5) if bb else (2, 3, 7, 5)
        yield Case(f"{ta}{tb}{ba}{bb}", "FusedMatMul", [normal(*a), normal(*b)], limit=FLOAT, transA=ta, transB=tb,
                   transBatchA=ba, transBatchB=bb, alpha=0.3)
        if not ba and not bb:
            yield Case(f"{ta}{tb} matrix", "FusedMatMul", [normal(*a), normal(*((7, 5) if tb else (5, 7)))],
                       limit=FLOAT, transA=ta, transB=tb)
    functions = {"Relu": [], "LeakyRelu": [0.1], "Tanh": [], "Sigmoid": [], "HardSigmoid": [0.3, 0.4], "Clip": [-0.5, 0.7]}
    for name, parameters in functions.items():
        for added in (False, True):
            inputs = [normal(1, 4, 9, 9), normal(6, 4, 3, 3), normal(6)] + [normal(1, 6, 5, 5)] * added
            yield Case(f"{name} {added}", "FusedConv", inputs, limit=FLOAT, activation=name, strides=[2, 2],
                       pads=[1, 1, 1, 1], **({"activation_params": parameters} if parameters else {}))
        if name == "Clip":
            continue
        named = dict(zip(["activation_alpha", "activation_beta"], parameters))
        yield Case(name, "FusedGemm", [normal(9, 20), normal(7, 20), normal(7)], limit=FLOAT, activation=name, transB=1,
                   alpha=0.5, beta=2.0, **named)


def compare(oracle, case, steps):
    """One case; `steps` counts elements, and those a step off, by operator."""
    path = oracle.folder / "case.onnx"
    name = f"{case.domain or 'ai.onnx'} {case.op} {case.what}"
    case.model(path)
    small = case.inputs[0].dtype == np.int8 and case.op not in ("MatMulInteger", "ConvInteger")
    want = answers(session(path, exact=not small), case.feeds())
    got = oracle.outputs(path, case.feeds())
    for output, value in want.items():
        ours = got[output]
        if case.limit == FLOAT:
            error = relative_rms(value, ours)
            oracle.check(name, error <= 1e-5, f"relative RMS {error:.2e}")
            continue
        same = value.dtype == ours.dtype and value.shape == ours.shape
        if case.limit == EXACT:
            differ = np.argwhere(value != ours)[:3].tolist() if same else "dims or types"
            oracle.check(name, same and np.array_equal(value, ours, equal_nan=value.dtype.kind == "f"),
                         f"differs at {differ}")
            continue
        off = np.abs(value.astype(int) - ours.astype(int)) if same else np.array([256])
        oracle.check(name, off.max(initial=0) <= 1, f"{off.max()} steps off, {(off > 0).mean():.2%} of elements")
        count = steps.setdefault(case.op, [0, 0])
        count[0] += off.size
        count[1] += int((off > 0).sum())


def four_bits(oracle):
    """QuantizeLinear to 4 bits, read back by a DequantizeLinear in the same model."""
    for element, zero in itertools.product([TensorProto.INT4, TensorProto.UINT4], [0, 3]):
        low, high = (-8, 7) if element == TensorProto.INT4 else (0, 15)
        x = np.concatenate([np.arange(low - 3, high + 3, 0.5), [np.inf, -np.inf, np.nan]]).astype(np.float32)
        nodes = [helper.make_node("Constant", [], ["zero"], value=helper.make_tensor("zero", element, [], [zero])),
                 helper.make_node("QuantizeLinear", ["x", "one", "zero"], ["codes"]),
                 helper.make_node("DequantizeLinear", ["codes", "one", "zero"], ["y"])]
        path = save(oracle.folder / "bits.onnx", nodes, [("x", TensorProto.FLOAT, x.shape)],
                    [("y", TensorProto.FLOAT, x.shape)], {"one": np.float32(1)})
        want, got = answers(session(path), {"x": x})["y"], oracle.outputs(path, {"x": x})["y"]
        oracle.check(f"QuantizeLinear {element} {zero}", np.array_equal(want, got), f"{want} and {got}")


def main():
    oracle = Oracle()
    steps, counts = {}, {}
    for case in itertools.chain(integer_products(), integer_convs(), quantization(), moved(), requantized_products(),
                                requantized_convs(), gemms(), elementwise(), concats(), pools(), softmaxes(),
                                float_products(), fused()):
        if "opset_" in case.attributes:  # an attribute of QLinearSoftmax with the name of a model's
            case.attributes["opset"] = case.attributes.pop("opset_")
        try:
            compare(oracle, case, steps)
        except Exception as error:  # ours or ONNX Runtime's refusal is a failure of the case
            oracle.check(f"{case.op} {case.what}", False, str(error).strip()[-600:])
        counts[case.op] = counts.get(case.op, 0) + 1
    four_bits(oracle)
    for op, count in counts.items():
        total, off = steps.get(op, (0, 0))
        print(f"{op}: {count} cases" + (f", {off} of {total} elements a step off" if total else ""))
        oracle.check(f"{op}: elements a step off", off <= MOST_STEPS * total, f"{off} of {total}")
    oracle.finish()


main()
