"""Small models that `nibble fuse --target onnxruntime-cpu` makes one node of: ONNX Runtime loads it, and answers as it does
to the model as it was without any optimization of its own."""
import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper

from common import Oracle, relative_rms, save

RANDOM = np.random.default_rng(5)
FUNCTIONS = {
    "Conv": {"Relu": {}, "Tanh": {}, "Sigmoid": {}, "LeakyRelu": {"alpha": 0.2}, "HardSigmoid": {"alpha": 0.3, "beta": 0.4},
             "HardSwish": {}, "Clip": {}},
    "Gemm": {"Relu": {}, "Tanh": {}, "Sigmoid": {}, "LeakyRelu": {"alpha": 0.2}, "HardSigmoid": {"alpha": 0.3, "beta": 0.4},
             "Elu": {"alpha": 0.7}, "Softplus": {}, "Softsign": {}},
}


def normal(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def answer(path, x):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]


def one_node(oracle, what, path, x, op, domain, *passes):
    out = oracle.folder / "fused.onnx"
    chosen = [word for name in passes for word in ("--passes", name)]
    report = oracle.json("fuse", path, "-o", out, "--target", "onnxruntime-cpu", "--verify", *chosen)
    nodes = [(n.domain, n.op_type) for n in onnx.load(out).graph.node]
    undone = [p["undone"] for p in report["passes"] if p["undone"]]
    if not oracle.check(f"{what}: becomes {domain}:{op}", nodes == [(domain, op)], f"{nodes} {undone}"):
        return
    error = relative_rms(answer(path, x), answer(out, x))
    oracle.check(f"{what}: answers", error <= 1e-5, f"relative RMS {error:.2e}")


def activations(oracle):
    weights = {"Conv": normal(6, 4, 3, 3), "Gemm": normal(8, 6)}
    inputs = {"Conv": normal(2, 4, 9, 9), "Gemm": normal(5, 8)}
    for before, functions in FUNCTIONS.items():
        x, more = inputs[before], {"w": weights[before], "b": normal(6)}
        y = ["n", 6, None, None] if before == "Conv" else ["n", 6]
        for function, attributes in functions.items():
            bounds = {"low": np.float32(-0.5), "high": np.float32(0.5)} if function == "Clip" else {}
            nodes = [helper.make_node(before, ["x", "w", "b"], ["t"], name="layer"),
                     helper.make_node(function, ["t", *bounds], ["y"], name="f", **attributes)]
            path = save(oracle.folder / "m.onnx", nodes, [("x", 1, list(x.shape))], [("y", 1, y)], {**more, **bounds}, 17, 8)
            one_node(oracle, f"{before}, {function}", path, x, f"Fused{before}", "com.microsoft", "fuse-activation")
        if before == "Conv":
            nodes = [helper.make_node("Conv", ["x", "w", "b"], ["t"], name="layer"),
                     helper.make_node("Max", ["t", "low"], ["u"]), helper.make_node("Min", ["u", "high"], ["y"])]
            bounds = {"low": np.float32(-0.5), "high": np.float32(0.5)}
            path = save(oracle.folder / "m.onnx", nodes, [("x", 1, list(x.shape))], [("y", 1, y)], {**more, **bounds}, 17, 8)
            one_node(oracle, "Conv, Max and Min", path, x, "FusedConv", "com.microsoft", "fuse-clip", "fuse-activation")


def rms_norms(oracle):
    """SimplifiedLayerNormalization of the default domain before opset 23, RMSNormalization from then on."""
    for opset, op in ((17, "SimplifiedLayerNormalization"), (23, "RMSNormalization")):
        arrays = {"two": np.float32(2), "eps": np.float32(1e-6), "gamma": normal(8)}
        axes = {"axes": [-1]} if opset < 18 else {}
        if opset >= 18:
            arrays["axes"] = np.array([-1], np.int64)
        nodes = [helper.make_node("Pow", ["x", "two"], ["s"]),
                 helper.make_node("ReduceMean", ["s"] if axes else ["s", "axes"], ["m"], **axes),
                 helper.make_node("Add", ["m", "eps"], ["e"]), helper.make_node("Sqrt", ["e"], ["r"]),
                 helper.make_node("Div", ["x", "r"], ["d"]), helper.make_node("Mul", ["d", "gamma"], ["y"], name="norm")]
        path = save(oracle.folder / "m.onnx", nodes, [("x", 1, [2, 3, 8])], [("y", 1, [2, 3, 8])], arrays, opset,
                    8 if opset < 18 else 11)
        one_node(oracle, f"RMS norm, opset {opset}", path, normal(2, 3, 8), op, "", "fuse-rms-norm")


def main():
    oracle = Oracle()
    activations(oracle)
    rms_norms(oracle)
    oracle.finish()


main()
