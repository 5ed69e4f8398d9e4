"""The forms of single operators: each loads in ONNX Runtime, agrees with our executor and is as close to float as its
format allows; codes that are shared are in the file once.

ConvTranspose (groups, depthwise, kernel shapes), Gather in both forms, tied embeddings, Transpose, Reshape and Cast
before a matrix, stacks of matrices and left operands on request, constants in bodies and functions, float16 models.
"""
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from common import Oracle, answers, feeds_for, save, session, sqnr, worst

F, H, I64 = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT64
FORMATS = {"int8 channel": ["--weights", "int8", "--group-size", "channel"],
           "int8 tensor asymmetric": ["--weights", "int8", "--group-size", "tensor", "--scheme", "asymmetric"],
           "uint8 channel asymmetric": ["--weights", "uint8", "--group-size", "channel", "--scheme", "asymmetric"],
           "int8 16": ["--weights", "int8", "--group-size", "16"],
           "int4 16": ["--group-size", "16"],
           "int4 channel": ["--group-size", "channel"],
           "int4 16 asymmetric": ["--group-size", "16", "--scheme", "asymmetric"],
           "uint4 32": ["--weights", "uint4"]}
# dB; Gaussian weights per channel or tensor lose most in 4 bits.
LEAST = {"int8": 30, "uint8": 30, "int4": 11, "uint4": 11}
random = np.random.default_rng(11)


def normal(*dims, dtype=np.float32):
    return random.standard_normal(dims).astype(dtype)


def check(oracle, what, model, feeds, formats=FORMATS, emits=("qdq", "nbits"), options=(), coverage=1.0, limit=1e-5, least=None):
    """Quantizes the model in every format; returns the report of the last."""
    reference = answers(session(model), feeds)
    for name, words in formats.items():
        for emit in emits:
            label = f"{what}, {name}, {emit}"
            out = oracle.folder / "quantized.onnx"
            level = ["--accuracy-level", "1"] if emit == "nbits" else []
            try:
                report = oracle.json("quantize", model, "-o", out, "--emit", emit, *level, *words, *options)
                onnx.checker.check_model(str(out))
                exact = answers(session(out, level=1), feeds)
                ours = oracle.outputs(out, feeds)
            except Exception as e:
                oracle.check(label, False, str(e)[:400])
                continue
            error = worst(exact, ours)
            oracle.check(f"{label}: agrees", error <= limit, f"relative RMS {error:.1e}")
            worst_db = min(sqnr(reference[n], exact[n]) for n in reference)
            wanted = LEAST[name.split()[0]] if least is None else least
            oracle.check(f"{label}: close to float", worst_db >= wanted, f"{worst_db:.1f} dB")
            oracle.check(f"{label}: coverage", report["coverage"] >= coverage, str(report["coverage"]))
            same = [i.type for i in session(model).get_inputs()] == [i.type for i in session(out).get_inputs()]
            oracle.check(f"{label}: inputs as they were", same)
    return report


def conv_transpose(oracle):
    for c, m, group, kernel in [(8, 6, 1, (2, 2)), (40, 5, 1, (3,)), (40, 3, 2, (2, 3)), (8, 1, 8, (3, 3)),
                                (8, 2, 8, (2, 2)), (6, 4, 1, (1, 1)), (4, 3, 1, (2, 2, 2)), (34, 2, 1, (3, 3))]:
        attributes = {"group": group, "strides": [2] * len(kernel)}
        node = helper.make_node("ConvTranspose", ["x", "w", "b"], ["y"], **attributes)
        x = normal(1, c, *([4] * len(kernel)))
        model = save(oracle.folder / "m.onnx", [node], [("x", F, x.shape)], [("y", F, None)],
                     {"w": normal(c, m, *kernel), "b": normal(m * group)}, opset=11, ir_version=6)
        check(oracle, f"ConvTranspose {c}x{m} in {group} groups, kernel {kernel}", model, {"x": x}, emits=("qdq",))


def gather(oracle):
    for v, d in [(50, 64), (33, 48), (20, 40), (7, 5), (9, 128)]:
        node = helper.make_node("Gather", ["w", "i"], ["y"])
        model = save(oracle.folder / "m.onnx", [node], [("i", I64, ["N", 3])], [("y", F, None)], {"w": normal(v, d)}, opset=13)
        feeds = {"i": random.integers(-v, v, (2, 3))}
        check(oracle, f"Gather of {v}x{d}", model, feeds)
    model = save(oracle.folder / "m.onnx", [helper.make_node("Gather", ["w", "i"], ["y"])], [("i", I64, [])], [("y", F, None)],
                 {"w": normal(40, 64)}, opset=13)
    check(oracle, "Gather of one row", model, {"i": np.array(7)})


def tied(oracle):
    v, d = 500, 64
    nodes = [helper.make_node("Gather", ["w", "i"], ["e"]), helper.make_node("Transpose", ["w"], ["t"], perm=[1, 0]),
             helper.make_node("MatMul", ["e", "t"], ["y"])]
    model = save(oracle.folder / "m.onnx", nodes, [("i", I64, ["N"])], [("y", F, None)], {"w": normal(v, d)}, opset=13)
    feeds = {"i": random.integers(0, v, 9)}
    check(oracle, "tied embedding and head", model, feeds)
    for weights, bits in (("int4", 4), ("int8", 8)):
        report = oracle.json("quantize", model, "-o", oracle.folder / "tied.onnx", "--emit", "nbits", "--weights", weights)
        once = v * d * bits // 8 + v * d // 32 * 4
        size = (oracle.folder / "tied.onnx").stat().st_size
        oracle.check(f"tied {weights}: codes once", once < size < once + 2000, f"{size} bytes for {once} of codes and scales")
        oracle.check(f"tied {weights}: bits", report["bits_per_weight"] == bits + 1, str(report["bits_per_weight"]))
    gemm = [nodes[0], helper.make_node("Gemm", ["e", "w", "c"], ["y"], transB=1)]
    model = save(oracle.folder / "m.onnx", gemm, [("i", I64, ["N"])], [("y", F, None)], {"w": normal(v, d), "c": normal(v)},
                 opset=13)
    check(oracle, "tied embedding and Gemm", model, feeds)


def movers(oracle):
    x = normal(5, 64)
    cases = {
        "Transpose": ([helper.make_node("Transpose", ["w"], ["t"], perm=[1, 0])], normal(48, 64)),
        "Reshape": ([helper.make_node("Reshape", ["w", "s"], ["t"])], normal(4, 16, 48)),
        "Transpose of rank 3, Reshape": ([helper.make_node("Transpose", ["w"], ["u"], perm=[1, 0, 2]),
                                          helper.make_node("Reshape", ["u", "s"], ["t"])], normal(4, 16, 48)),
        "Reshape, Transpose, Identity": ([helper.make_node("Reshape", ["w", "r"], ["u"]),
                                          helper.make_node("Transpose", ["u"], ["v"]),
                                          helper.make_node("Identity", ["v"], ["t"])], normal(3, 16, 64)),
        "Unsqueeze, Squeeze": ([helper.make_node("Unsqueeze", ["w", "zero"], ["u"]),
                                helper.make_node("Squeeze", ["u", "zero"], ["t"])], normal(64, 48)),
        "Cast from half": ([helper.make_node("Cast", ["w"], ["t"], to=F)], normal(64, 48, dtype=np.float16)),
    }
    shapes = {"s": np.array([64, 48]), "r": np.array([48, 64]), "zero": np.array([0])}
    for name, (nodes, w) in cases.items():
        used = {n: v for n, v in shapes.items() if any(n in node.input for node in nodes)}
        model = save(oracle.folder / "m.onnx", [*nodes, helper.make_node("MatMul", ["x", "t"], ["y"])], [("x", F, x.shape)],
                     [("y", F, None)], {"w": w, **used}, opset=13)
        check(oracle, f"MatMul behind {name}", model, {"x": x})
        fewer = oracle.json("quantize", model, "-o", oracle.folder / "q.onnx")
        left = {n.op_type for n in onnx.load(oracle.folder / "q.onnx").graph.node}
        oracle.check(f"MatMul behind {name}: nothing between", left == {"DequantizeLinear", "MatMul"}, str(left))
        oracle.check(f"MatMul behind {name}: no warning", not any("warning" in v for v in fewer["verdicts"]))


def on_request(oracle):
    x = normal(3, 5, 64)
    stack = save(oracle.folder / "m.onnx", [helper.make_node("MatMul", ["x", "w"], ["y"])], [("x", F, x.shape)], [("y", F, None)],
                 {"w": normal(3, 64, 24)}, opset=13)
    check(oracle, "stack of matrices", stack, {"x": x}, options=["--include-op", "MatMul"])
    for dims in ((24, 5), (3, 24, 5)):
        left = save(oracle.folder / "m.onnx", [helper.make_node("MatMul", ["w", "x"], ["y"])], [("x", F, [3, 5, 64])],
                    [("y", F, None)], {"w": normal(*dims)}, opset=13)
        check(oracle, f"left operand {dims}", left, {"x": x}, options=["--include-op", "MatMul"])
    gemm = save(oracle.folder / "m.onnx", [helper.make_node("Gemm", ["w", "x"], ["y"], transA=1)], [("x", F, [64, 7])],
                [("y", F, None)], {"w": normal(64, 24)}, opset=13)
    check(oracle, "transposed left operand", gemm, {"x": normal(64, 7)}, options=["--include-op", "Gemm"])


def bodies(oracle):
    x = normal(2, 64)
    constant = helper.make_node("Constant", [], ["w"], value=numpy_helper.from_array(normal(64, 32), "w"))
    branch = lambda name, out: helper.make_graph(
        [constant, helper.make_node("MatMul", ["x", "w"], [out])] if name == "then" else
        [helper.make_node("MatMul", ["x", "outer"], [out])], name, [], [helper.make_tensor_value_info(out, F, [2, 32])])
    node = helper.make_node("If", ["c"], ["y"], then_branch=branch("then", "p"), else_branch=branch("else", "q"))
    model = save(oracle.folder / "m.onnx", [node], [("c", TensorProto.BOOL, []), ("x", F, [2, 64])], [("y", F, [2, 32])],
                 {"outer": normal(64, 32)}, opset=13)
    for c in (True, False):
        check(oracle, f"If, branch {c}", model, {"c": np.array(c), "x": x})


def functions(oracle):
    x = normal(2, 64)
    constant = helper.make_node("Constant", [], ["w"], value=numpy_helper.from_array(normal(64, 64), "w"))
    body = [constant, helper.make_node("MatMul", ["a", "w"], ["b"])]
    function = helper.make_function("local", "head", ["a"], ["b"], body, [helper.make_opsetid("", 13)])
    nodes = [helper.make_node("head", ["x"], ["h"], domain="local"), helper.make_node("head", ["h"], ["y"], domain="local")]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", F, [2, 64])],
                              [helper.make_tensor_value_info("y", F, [2, 64])])
    model = oracle.folder / "m.onnx"
    imports = [helper.make_opsetid("", 13), helper.make_opsetid("local", 1)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=8, functions=[function]), model)
    check(oracle, "function", model, {"x": x})


def half(oracle):
    """float16 models: types agree in the whole graph, and the weights may be what stays float."""
    x = normal(5, 64, dtype=np.float16)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Add", ["h", "b"], ["a"]),
             helper.make_node("Gemm", ["a", "v", "c"], ["y"], transB=1)]
    weights = {"w": normal(64, 48, dtype=np.float16), "b": normal(48, dtype=np.float16),
               "v": normal(32, 48, dtype=np.float16), "c": normal(32, dtype=np.float16)}
    model = save(oracle.folder / "m.onnx", nodes, [("x", H, x.shape)], [("y", H, None)], weights, opset=13)
    check(oracle, "float16 matrices", model, {"x": x}, limit=2e-3)
    check(oracle, "float16 matrices, scales of float32", model, {"x": x}, options=["--scale-type", "fp32"], emits=("qdq",),
          limit=2e-3)
    table = save(oracle.folder / "m.onnx", [helper.make_node("Gather", ["w", "i"], ["y"])], [("i", I64, ["N"])], [("y", H, None)],
                 {"w": normal(20, 64, dtype=np.float16)}, opset=13)
    check(oracle, "float16 table", table, {"i": random.integers(0, 20, 7)}, limit=2e-3)
    image = normal(1, 4, 6, 6, dtype=np.float16)
    conv = save(oracle.folder / "m.onnx", [helper.make_node("Conv", ["x", "w"], ["h"]), helper.make_node("ConvTranspose", ["h", "v"], ["y"])],
                [("x", H, image.shape)], [("y", H, None)],
                {"w": normal(8, 4, 3, 3, dtype=np.float16), "v": normal(8, 3, 2, 2, dtype=np.float16)}, opset=13)
    check(oracle, "float16 kernels", conv, {"x": image}, emits=("qdq",), limit=2e-3)


def keep_half(oracle):
    x = normal(6, 64)
    nodes = [helper.make_node("Add", ["x", "a"], ["s"]), helper.make_node("MatMul", ["s", "w"], ["m"]),
             helper.make_node("MatMul", ["m", "head"], ["y"])]
    weights = {"a": normal(6, 64), "w": normal(64, 64), "head": normal(64, 300)}
    model = save(oracle.folder / "m.onnx", nodes, [("x", F, x.shape)], [("y", F, None)], weights, opset=13)
    out = oracle.folder / "kept.onnx"
    oracle.json("quantize", model, "-o", out, "--weights", "int8", "--skip", "head", "--keep", "fp16")
    stored = {numpy_helper.to_array(t).dtype.name for t in onnx.load(out).graph.initializer if len(t.dims) == 2}
    oracle.check("kept as half: types", stored == {"float16", "float32", "int8"}, str(stored))  # float32: the scales
    exact, ours = answers(session(out, level=1), {"x": x}), oracle.outputs(out, {"x": x})
    oracle.check("kept as half: agrees", worst(exact, ours) <= 1e-5)
    oracle.check("kept as half: close", sqnr(answers(session(model), {"x": x})["y"], exact["y"]) > 30)
    plain = oracle.folder / "plain.onnx"
    oracle.json("quantize", model, "-o", plain, "--weights", "int8", "--skip", "head")
    saved = plain.stat().st_size - out.stat().st_size
    oracle.check("kept as half: size", 64 * 300 * 2 + 6 * 64 * 2 - 400 < saved, f"{saved} bytes less")
    weights["head"][3, 4] = 1e5
    model = save(oracle.folder / "m.onnx", nodes, [("x", F, x.shape)], [("y", F, None)], weights, opset=13)
    done = oracle.run("quantize", model, "-o", out.with_name("none.onnx"), "--skip", "head", "--keep", "fp16")
    named = done.returncode == 4 and "'head'" in done.stderr and not out.with_name("none.onnx").exists()
    oracle.check("kept as half: too large a value", named, f"exit {done.returncode}: {done.stderr}")


def real_models_on_request(oracle):
    """LSTM weights, plain and behind the Slices with which exporters reorder gates, and those of a fused attention."""
    for name, op, coverage in (("dtln_model_1", "LSTM", 0.98), ("silero_vad_v5", "LSTM", 0.99), ("gpt2_kv_random", "Attention", 0.65)):
        model = oracle.shared / f"{name}.onnx"
        if not model.exists():
            print(f"NOT RUN: {name} is absent")
            continue
        check(oracle, f"{name} with {op}", model, feeds_for(model, 3), {"int8 channel": FORMATS["int8 channel"]},
              options=["--include-op", op], coverage=coverage, limit=1e-4, least=15)
        check(oracle, f"{name} with {op}", model, feeds_for(model, 3), {"int4 32": []}, options=["--include-op", op],
              coverage=coverage, limit=1e-4, least=0)


def main():
    oracle = Oracle()
    for part in (real_models_on_request, conv_transpose, gather, tied, movers, on_request, bodies, functions, half, keep_half):
        part(oracle)
    oracle.finish()


main()
