"""Makes the small models that the .cli files use, into tests/cli/models. Needs numpy and onnx; their output is kept in
the repository, so no test runs this."""
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

TARGET = pathlib.Path(__file__).parent / "models"


def wave(*dims):
    """Weights that need no generator: the same on every machine and version."""
    return np.sin(np.arange(1, np.prod(dims) + 1, dtype=np.float64) * 1.7).astype(np.float32).reshape(dims)


def value(name, *dims, dtype=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, dims)


def save(name, nodes, inputs, outputs, arrays, opset=17, **options):
    tensors = [a if isinstance(a, TensorProto) else numpy_helper.from_array(a, n) for n, a in arrays.items()]
    graph = helper.make_graph(nodes, name, inputs, outputs, tensors)
    opsets = [helper.make_opsetid("", opset)] + options.get("opsets", [])
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8, producer_name="make_models")
    (TARGET / f"{name}.onnx").write_bytes(model.SerializeToString(deterministic=True))


def mlp():
    """Two layers with a decomposed LayerNormalization between them."""
    nodes = [
        helper.make_node("MatMul", ["x", "fc1.weight"], ["h1"], name="fc1"),
        helper.make_node("ReduceMean", ["h1"], ["mean"], name="norm/mean", axes=[-1]),
        helper.make_node("Sub", ["h1", "mean"], ["d"], name="norm/sub"),
        helper.make_node("Pow", ["d", "two"], ["d2"], name="norm/pow"),
        helper.make_node("ReduceMean", ["d2"], ["var"], name="norm/var", axes=[-1]),
        helper.make_node("Add", ["var", "eps"], ["vare"], name="norm/add"),
        helper.make_node("Sqrt", ["vare"], ["std"], name="norm/sqrt"),
        helper.make_node("Div", ["d", "std"], ["n"], name="norm/div"),
        helper.make_node("Mul", ["n", "norm.weight"], ["ns"], name="norm/scale"),
        helper.make_node("Add", ["ns", "norm.bias"], ["nb"], name="norm/shift"),
        helper.make_node("Relu", ["nb"], ["r"], name="relu"),
        helper.make_node("Gemm", ["r", "fc2.weight", "fc2.bias"], ["logits"], name="fc2", transB=1),
        helper.make_node("Softmax", ["logits"], ["probabilities"], name="softmax", axis=-1),
    ]
    save("mlp", nodes, [value("x", "batch", 16)], [value("logits", "batch", 10), value("probabilities", "batch", 10)],
         {"fc1.weight": wave(16, 64), "two": np.float32(2), "eps": np.float32(1e-5), "norm.weight": wave(1, 64) + 2,
          "norm.bias": wave(64), "fc2.weight": wave(10, 64), "fc2.bias": wave(10)})


def double_conv():
    save("double_conv", [helper.make_node("Conv", ["x", "w"], ["c"], name="conv"),
                         helper.make_node("Relu", ["c"], ["y"], name="relu")],
         [value("x", 1, 2, 4, 4, dtype=TensorProto.DOUBLE)], [value("y", 1, 2, 4, 4, dtype=TensorProto.DOUBLE)],
         {"w": wave(2, 2, 1, 1).astype(np.float64)})


def decoder():
    """A layer of grouped-query attention that is handed its past keys and values and hands them back, longer."""
    def of(kind):
        return [
            helper.make_node("MatMul", ["h", f"{kind}.weight"], [f"{kind}_rows"], name=kind),
            helper.make_node("Reshape", [f"{kind}_rows", "split"], [f"{kind}_heads"], name=f"{kind}/split"),
            helper.make_node("Transpose", [f"{kind}_heads"], [f"{kind}_new"], name=f"{kind}/turn", perm=[0, 2, 1, 3]),
            helper.make_node("Concat", [f"past.{kind}", f"{kind}_new"], [f"present.{kind}"], name=f"{kind}/join", axis=2),
        ]
    nodes = [
        helper.make_node("Gather", ["embed.weight", "ids"], ["h"], name="embed"),
        *of("key"), *of("value"),
        helper.make_node("MatMul", ["h", "head.weight"], ["logits"], name="head"),
    ]
    past, total = ("batch", 4, "past", 8), ("batch", 4, "past + seq", 8)
    save("decoder", nodes,
         [value("ids", "batch", "seq", dtype=TensorProto.INT64), value("past.key", *past), value("past.value", *past)],
         [value("logits", "batch", "seq", 50), value("present.key", *total), value("present.value", *total)],
         {"embed.weight": wave(50, 64), "key.weight": wave(64, 32), "value.weight": wave(64, 32),
          "head.weight": wave(64, 50), "split": np.int64([0, 0, 4, 8])})


def matmul_with(name, weight, **options):
    save(name, [helper.make_node("MatMul", ["x", "w"], ["y"], name="proj")], [value("x", "n", 32)], [value("y", "n", 8)],
         {"w": weight}, **options)


def external(name, location, length=32 * 8 * 4):
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[32, 8], data_location=TensorProto.EXTERNAL)
    for key, text in (("location", location), ("offset", "0"), ("length", str(length))):
        tensor.external_data.add(key=key, value=text)
    matmul_with(name, tensor)


def unknown_op():
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"], name="proj"),
             helper.make_node("Frobnicate", ["h"], ["y"], name="frob", domain="example")]
    save("unknown_op", nodes, [value("x", "n", 32)], [value("y", "n", 8)], {"w": wave(32, 8)},
         opsets=[helper.make_opsetid("example", 1)])


def dangling():
    save("dangling", [helper.make_node("Relu", ["nowhere"], ["y"], name="relu")], [value("x", 1)], [value("y", 1)], {})


def relu_with_samples():
    """ONNX's form of stored samples: one folder with right outputs, one with a wrong one."""
    save("relu", [helper.make_node("Relu", ["x"], ["y"], name="relu")], [value("x", 2, 3)], [value("y", 2, 3)], {})
    x = wave(2, 3)
    for folder, y in (("right", np.maximum(x, 0)), ("wrong", np.maximum(x, 0) + np.float32([[0, 0, 0], [0, 0, 0.25]]))):
        target = TARGET / folder / "test_data_set_0"
        target.mkdir(parents=True, exist_ok=True)
        (target / "input_0.pb").write_bytes(numpy_helper.from_array(x, "x").SerializeToString(deterministic=True))
        (target / "output_0.pb").write_bytes(numpy_helper.from_array(y, "y").SerializeToString(deterministic=True))


def endless():
    """Loops that ask for 2^62 and for 5 runs of their body."""
    body = helper.make_graph([helper.make_node("Identity", ["k"], ["k2"]), helper.make_node("Neg", ["a"], ["b"])], "body",
                             [value("i", dtype=TensorProto.INT64), value("k", dtype=TensorProto.BOOL), value("a", 2)],
                             [value("k2", dtype=TensorProto.BOOL), value("b", 2)])
    for name, trips in (("endless", 2**62), ("counted", 5)):
        save(name, [helper.make_node("Loop", ["n", "", "x"], ["y"], name="loop", body=body)], [value("x", 2)],
             [value("y", 2)], {"n": np.int64(trips)})


def kinds():
    """A sequence and an optional among inputs and outputs, with stored values of them."""
    floats = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
    sequence = helper.make_sequence_type_proto(floats)
    nodes = [helper.make_node("ConcatFromSequence", ["s"], ["joined"], name="join", axis=0),
             helper.make_node("OptionalHasElement", ["o"], ["given"], name="given"),
             helper.make_node("SplitToSequence", ["joined"], ["parts"], name="split", axis=0)]
    save("kinds", nodes,
         [helper.make_value_info("s", sequence), helper.make_value_info("o", helper.make_optional_type_proto(floats))],
         [value("joined", None, 2), value("given", dtype=TensorProto.BOOL), helper.make_value_info("parts", sequence)], {})
    target = TARGET / "kinds" / "test_data_set_0"
    target.mkdir(parents=True, exist_ok=True)
    x = wave(3, 2)
    stored = {"input_0": numpy_helper.from_list([x[:1], x[1:]], "s"), "input_1": numpy_helper.from_optional(None, "o"),
              "output_0": numpy_helper.from_array(x, "joined"), "output_1": numpy_helper.from_array(np.bool_(False), "given"),
              "output_2": numpy_helper.from_list([x[i:i + 1] for i in range(3)], "parts")}
    for name, proto in stored.items():
        (target / f"{name}.pb").write_bytes(proto.SerializeToString(deterministic=True))


def batches():
    """An input and a state whose batch is its second axis, as recurrent nets have it; three rows of both."""
    save("batches", [helper.make_node("ReduceSum", ["s", "axis"], ["t"], name="sum", keepdims=0),
                     helper.make_node("Add", ["x", "t"], ["y"], name="add")],
         [value("x", None, 4), value("s", 2, None, 4)], [value("y", None, 4)], {"axis": np.int64([0])})
    np.savez(TARGET / "batches.npz", x=wave(3, 4), s=wave(2, 3, 4))


def odd_names():
    """Names that would drive a terminal, and one that is empty."""
    nodes = [helper.make_node("MatMul", ["x", "w\x1b[31m\n"], ["a::b:0"], name="")]
    save("odd_names", nodes, [value("x", "n", 4)], [value("a::b:0", "n", 8)], {"w\x1b[31m\n": wave(4, 8)})


def leftovers():
    """What exports leave behind: training mode, a second copy, constants that nobody reads, an unused import."""
    nodes = [
        helper.make_node("MatMul", ["x", "fc1"], ["h"], name="fc"),
        helper.make_node("Dropout", ["h", "rate", "training"], ["d"], name="drop"),
        helper.make_node("MatMul", ["d", "fc2"], ["e"], name="fc"),
        helper.make_node("NonZero", ["e"], ["y"]),
    ]
    weight = wave(128, 128)
    save("leftovers", nodes, [value("x", 2, 128), value("spare", "n")], [value("y", 2, "hits", dtype=TensorProto.INT64)],
         {"fc1": weight, "fc2": weight, "rate": np.float32(0.5), "training": np.bool_(True), "step": np.int64(7)},
         opset=13, opsets=[helper.make_opsetid("ai.onnx.ml", 3)])
def cache():
    """A step of a decoder with a cache: dimensions with names of all kinds, shapes computed from shapes, a branch that
    depends on an input, and one output whose size only a run can tell."""
    def branch(name, op):
        return helper.make_graph([helper.make_node(op, ["joined"], [f"{name}_out"], name=f"{name}/{op}")], name, [],
                                 [value(f"{name}_out", "batch", "past.len + seq", 8)])
    nodes = [
        helper.make_node("Concat", ["past", "x"], ["joined"], name="join", axis=1),
        helper.make_node("Equal", ["rate", "fast"], ["is_fast"], name="is_fast"),
        helper.make_node("If", ["is_fast"], ["state"], name="by_rate", then_branch=branch("quick", "Relu"),
                         else_branch=branch("slow", "Abs")),
        helper.make_node("Shape", ["state"], ["dims"], name="dims"),
        helper.make_node("Gather", ["dims", "zero"], ["rows"], name="rows"),
        helper.make_node("Unsqueeze", ["rows", "axis"], ["rows1"], name="rows1"),
        helper.make_node("Concat", ["rows1", "heads"], ["target"], name="target", axis=0),
        helper.make_node("Reshape", ["state", "target"], ["split"], name="split"),
        helper.make_node("NonZero", ["mask"], ["set"], name="set"),
    ]
    save("cache", nodes,
         [value("x", "batch", "seq", 8), value("past", "batch", "past.len", 8), value("mask", "batch", "past.len + seq"),
          value("rate", dtype=TensorProto.INT64)],
         [value("state", "batch", "past.len + seq", 8), value("split", "batch", "tokens", 2, 4),
          value("set", 2, "found", dtype=TensorProto.INT64)],
         {"fast": np.int64(16000), "zero": np.int64(0), "axis": np.int64([0]), "heads": np.int64([-1, 2, 4])})


def clash():
    """A named dimension that must be 3, or 1, although nothing says so."""
    save("clash", [helper.make_node("Add", ["x", "w"], ["y"], name="add")], [value("x", "n", 4)], [value("y", 3, 4)],
         {"w": wave(3, 4)})


def samples():
    np.savez(TARGET / "wrong_shape.npz", x=wave(2, 15))
    np.savez(TARGET / "wrong_dtype.npz", x=wave(2, 16).astype(np.float64))
    np.savez(TARGET / "wrong_name.npz", x=wave(2, 16), y=wave(2, 16))
    np.savez(TARGET / "three.npz", x=wave(3, 16))


def main():
    TARGET.mkdir(exist_ok=True)
    mlp()
    matmul_with("matmul", wave(32, 8))
    bad = wave(32, 8)
    bad[3, 1], bad[4, 2] = np.nan, np.inf
    matmul_with("nan_weight", bad)
    big = wave(32, 8)
    big[0, 0] = 1e30
    matmul_with("huge_weight", big)
    external("external", "external.data")
    (TARGET / "external.data").write_bytes(wave(32, 8).tobytes())
    external("external_missing", "gone.data")
    external("external_short", "short.data")
    (TARGET / "short.data").write_bytes(b"\0" * 100)
    external("external_outside", "../external.data")
    unknown_op()
    dangling()
    relu_with_samples()
    samples()
    odd_names()
    endless()
    leftovers()
    kinds()
    batches()
    cache()
    clash()
    double_conv()
    decoder()


main()
