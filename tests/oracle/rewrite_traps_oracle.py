"""Faults of other tools that rewrite graphs (traps_oracle.py has those of quantizers): strange operators, types that clash,
weights that grow, and rewrites that change answers. ONNX Runtime and our executor judge each model before and after."""
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from common import Oracle, answers, relative_rms, save, session

F, H, I, B = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT64, TensorProto.BOOL
RANDOM = np.random.default_rng(20)
PIPELINES = {"default": "portable", "onnxruntime": "onnxruntime-cpu"}


def normal(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def strange_operator(oracle):  # 20
    """Around an operator nobody knows, in the main graph, a body and a function: all else gets its shape, what does not is
    listed with the operator that is to blame, and the file is written."""
    info = helper.make_tensor_value_info
    branch = lambda name, op, domain: helper.make_graph(
        [helper.make_node(op, ["a"], [f"{name}_s"], name=f"{name}_node", domain=domain), helper.make_node("Relu", [f"{name}_s"], [f"{name}_y"])],
        name, [], [info(f"{name}_y", F, None)])
    function = helper.make_function("strange", "Wrapped", ["p"], ["q"], [helper.make_node("Alien", ["p"], ["q"], domain="strange")],
                                    [helper.make_opsetid("", 17), helper.make_opsetid("strange", 1)])
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("Relu", ["a"], ["known"]),
             helper.make_node("Odd", ["a"], ["b"], name="odd_node", domain="strange"), helper.make_node("MatMul", ["b", "w2"], ["after"]),
             helper.make_node("Wrapped", ["a"], ["f"], name="call", domain="strange"), helper.make_node("Sigmoid", ["f"], ["from_function"]),
             helper.make_node("NonZero", ["x"], ["nz"], name="nonzero_node"), helper.make_node("Shape", ["a"], ["dims"]),
             helper.make_node("If", ["c"], ["chosen"], name="if_node", then_branch=branch("t", "Alien", "strange"),
                              else_branch=branch("e", "Neg", ""))]
    outputs = ["known", "after", "from_function", "nz", "dims", "chosen"]
    kinds = [F, F, F, I, I, F]
    graph = helper.make_graph(nodes, "g", [info("x", F, ["N", 8]), info("c", B, [])], [info(n, k, None) for n, k in zip(outputs, kinds)],
                              [numpy_helper.from_array(normal(8, 4), "w"), numpy_helper.from_array(normal(4, 3), "w2")])
    path, out = oracle.folder / "strange.onnx", oracle.folder / "fixed.onnx"
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("strange", 1)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=8, functions=[function]), path)
    report = oracle.json("fixshape", path, "--dim", "N=5", "-o", out)
    shapes = {s["name"]: s["is"] for s in report["shapes"]}
    oracle.check("20: what is known becomes static", shapes["x"] == "5 x 8" and shapes["known"] == "5 x 4" and shapes["dims"] == "2", str(shapes))
    causes = {d["output"]: d["cause"] for d in report["dynamic_outputs"]}
    for name, blamed in {"after": "odd_node", "nz": "nonzero_node", "from_function": "call", "chosen": "t_node"}.items():
        oracle.check(f"20: {name} names its cause", blamed in causes.get(name, ""), str(causes))
    oracle.check("20: the rest names none", set(causes) == {"after", "nz", "from_function", "chosen"}, str(causes))
    made = onnx.load(out)
    oracle.check("20: written whole", {o.name for o in made.graph.output} == set(outputs) and
                 {n.op_type for n in made.graph.node} >= {"Odd", "NonZero", "If"})
    for command in (["fuse", path, "-o", out], ["inspect", path], ["convert", path, "-o", out, "--type", "fp16"], ["check", path]):
        done = oracle.run(*command)
        oracle.check(f"20: {command[0]} does not abort", done.returncode in (0, 1), f"exit {done.returncode}: {done.stderr}")


def every_position(oracle):  # 20
    """The strange operator in each place of a chain: all before it is static, all behind it is listed."""
    chain = ["Relu", "Neg", "Sigmoid", "Abs", "Tanh"]
    for at in range(len(chain) + 1):
        ops = chain[:at] + ["Odd"] + chain[at:]
        nodes = [helper.make_node(op, [f"v{i}"], [f"v{i + 1}"], name=f"n{i}", domain="strange" if op == "Odd" else "")
                 for i, op in enumerate(ops)]
        values = [f"v{i + 1}" for i in range(len(ops))]
        graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("v0", F, ["N", 3])],
                                  [helper.make_tensor_value_info(v, F, None) for v in values])
        path = oracle.folder / "chain.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("strange", 1)], ir_version=8), path)
        report = oracle.json("fixshape", path, "--dim", "N=2", "-o", oracle.folder / "fixed.onnx")
        open_ = {d["output"] for d in report["dynamic_outputs"]}
        blamed = all(f"n{at}" in d["cause"] for d in report["dynamic_outputs"])
        oracle.check(f"20: strange at {at}", open_ == set(values[at:]) and blamed, str(report["dynamic_outputs"]))


def loads_and_agrees(oracle, what, before, after, feeds, limit=1e-5):
    """Types are sound: the checker with full inference, and ONNX Runtime, take the model; its answers are the same."""
    try:
        onnx.checker.check_model(str(after), full_check=True)
        expected, got = answers(session(before), feeds), answers(session(after), feeds)
        error = max(relative_rms(expected[n], got[n]) for n in expected)
        types = all(expected[n].dtype == got[n].dtype for n in expected)
        return oracle.check(what, types and error <= limit, f"relative RMS {error:.2e}")
    except Exception as e:
        return oracle.check(what, False, str(e)[:300])


def quantized_net(folder, kind, scale_kind, opset, weights_only):
    """MatMul, BatchNormalization, Relu, MatMul of one type with Q/DQ pairs of another, and Casts between them where the two
    differ."""
    real = {F: np.float32, H: np.float16}
    inits = {"wc": RANDOM.integers(-127, 128, (16, 12)).astype(np.int8), "wz": np.zeros(12, np.int8), "ws": np.full(12, 0.01, real[scale_kind]),
             "as": np.array(0.05, real[scale_kind]), "az": np.array(0, np.int8), "w2": normal(12, 5).astype(real[kind]),
             "s": (np.abs(normal(12)) + 0.5).astype(real[kind]), "b": normal(12).astype(real[kind]),
             "m": normal(12).astype(real[kind]), "v": (np.abs(normal(12)) + 0.5).astype(real[kind])}
    nodes, count = [], [0]

    def add(op, inputs, **attributes):
        count[0] += 1
        nodes.append(helper.make_node(op, inputs, [f"t{count[0]}"], name=f"n{count[0]}", **attributes))
        return f"t{count[0]}"

    def as_kind(name, have, want):
        return name if have == want else add("Cast", [name], to=want)

    def pair(name):
        if weights_only:
            return name
        q = add("QuantizeLinear", [as_kind(name, kind, scale_kind), "as", "az"])
        return as_kind(add("DequantizeLinear", [q, "as", "az"]), scale_kind, kind)

    weight = as_kind(add("DequantizeLinear", ["wc", "ws", "wz"], axis=1), scale_kind, kind)
    h = add("MatMul", [pair("x"), weight])
    h = add("BatchNormalization", [h, "s", "b", "m", "v"])
    h = add("Relu", [pair(add("Identity", [h]))])
    h = add("MatMul", [h, add("Identity", ["w2"])])
    nodes.append(helper.make_node("Add", [h, add("Cast", [add("Cast", ["one"], to=F)], to=kind)], ["y"]))
    inits["one"] = np.ones(5, real[kind])
    path = folder / "qdq.onnx"
    save(path, nodes, [("x", kind, [3, 16])], [("y", kind, [3, 5])], inits, opset, 10)
    return path, {"x": normal(3, 16).astype(real[kind])}


def mixed_types(oracle):  # 21
    for kind, scale_kind, opset in ((H, H, 19), (H, H, 21), (H, F, 17), (H, F, 21), (F, F, 17), (F, H, 21)):
        for weights_only in (True, False):
            path, feeds = quantized_net(oracle.folder, kind, scale_kind, opset, weights_only)
            name = f"21: {TensorProto.DataType.Name(kind)} with scales of {TensorProto.DataType.Name(scale_kind)}, opset {opset}" \
                   f"{', weights only' if weights_only else ''}"
            out = oracle.folder / "typed.onnx"
            limit = 1e-5 if kind == F else 5e-3
            for pipeline, target in PIPELINES.items():
                report = oracle.json("fuse", path, "-o", out, "--pipeline", pipeline, "--target", target)
                undone = [p["undone"] for p in report["passes"] if p["undone"]]
                oracle.check(f"{name}: {pipeline} makes no clash", not undone, str(undone))
                loads_and_agrees(oracle, f"{name}: fuse, {pipeline}", path, out, feeds, limit)
            for options, bound in ((["--opset", 21], limit), (["--type", "fp16"], 2e-2), (["--type", "fp16", "--opset", 21], 2e-2)):
                oracle.json("convert", path, "-o", out, *options)
                loads_and_agrees(oracle, f"{name}: convert {options}", path, out, feeds, bound)
            if kind == F:
                oracle.json("convert", path, "-o", out, "--type", "fp16", "--io-half")
                onnx.checker.check_model(str(out), full_check=True)
                got = answers(session(out), {"x": feeds["x"].astype(np.float16)})["y"]
                oracle.check(f"{name}: --io-half", relative_rms(answers(session(path), feeds)["y"], got) < 2e-2)


BIG = (4096, 4096)


def big_weights(oracle):  # 22
    """A weight of 64 MB and the readers that a folding would copy it for: the file does not grow, and neither does memory."""
    w = (RANDOM.integers(-8, 9, BIG) / 16).astype(np.float32)
    node = helper.make_node
    transpose = lambda x, y, **more: node("Transpose", [x], [y], **(more or {"perm": [1, 0]}))
    products = lambda *weights: [node("MatMul", ["x", v], [f"y{i}"]) for i, v in enumerate(weights)]
    models = {
        "one Transpose": ([transpose("w", "t"), *products("t")], {}),
        "two Transposes": ([transpose("w", "t"), transpose("w", "u"), *products("t", "u")], {}),
        "a Transpose and the weight itself": ([transpose("w", "t"), *products("t", "w")], {}),
        "two Transposes in a row": ([transpose("w", "t"), transpose("t", "u"), *products("u", "t")], {}),
        "two scales": ([node("Mul", ["w", "c"], ["t"]), node("Mul", ["w", "d"], ["u"]), *products("t", "u")],
                       {"c": np.float32(2), "d": np.float32(3)}),
        "a Cast there and back": ([node("Cast", ["w"], ["t"], to=H), node("Cast", ["t"], ["u"], to=F), *products("u", "w")], {}),
        "Concat": ([node("Concat", ["w", "w"], ["t"], axis=1), *products("t")], {}),
        "Expand, Tile and ConstantOfShape": (
            [node("Expand", ["c", "shape"], ["t"]), node("ConstantOfShape", ["shape"], ["u"]), node("Tile", ["row", "times"], ["v"]),
             node("Add", ["t", "u"], ["s"]), node("Add", ["s", "v"], ["z"]), node("Add", ["z", "w"], ["r"]), *products("r")],
            {"c": np.float32(2), "shape": np.array(BIG), "row": normal(1, 4096), "times": np.array([4096, 1])}),
        "Slices": ([node("Split", ["w"], ["s0", "s1"], axis=0), node("Concat", ["s1", "s0"], ["t"], axis=0), *products("t", "w")], {}),
        "a BatchNormalization behind each of two": (
            [*[n for i in range(2) for n in (node("MatMul", ["x", "w"], [f"h{i}"]),
                                             node("BatchNormalization", [f"h{i}", "s", "b", "m", "v"], [f"y{i}"]))]],
            {"s": normal(4096), "b": normal(4096), "m": normal(4096), "v": np.abs(normal(4096)) + 0.5}),
        "Gemms with and without transB": ([node("Gemm", ["x", "w"], ["y0"], transB=1), node("Gemm", ["x", "w"], ["y1"])], {}),
        "a scale for one of two readers": ([node("MatMul", ["x", "w"], ["h"]), node("Mul", ["h", "s"], ["y0"]), node("MatMul", ["x", "w"], ["y1"])],
                                           {"s": normal(4096)}),
    }
    feeds = {"x": normal(1, 4096)}
    for name, (nodes, inits) in models.items():
        outs = [o for n in nodes for o in n.output if o.startswith("y")]
        path = save(oracle.folder / "big.onnx", nodes, [("x", F, [1, 4096])], [(o, F, None) for o in outs], {"w": w, **inits}, 17, 8)
        size, out = path.stat().st_size, oracle.folder / "small.onnx"
        expected = answers(session(path), feeds)
        for pipeline, target in PIPELINES.items():
            report = oracle.json("fuse", path, "-o", out, "--pipeline", pipeline, "--target", target)
            got = answers(session(out), feeds)
            error = max(relative_rms(expected[n], got[n]) for n in expected)
            made = {t.name: int(np.prod(t.dims)) for t in onnx.load(out).graph.initializer}
            oracle.check(f"22: {name}, {pipeline}: no larger", out.stat().st_size <= size + 4096, f"{size} -> {out.stat().st_size}")
            oracle.check(f"22: {name}, {pipeline}: one large weight", sum(n >= w.size // 2 for n in made.values()) == 1, str(made))
            oracle.check(f"22: {name}, {pipeline}: answers", error <= 1e-5, f"relative RMS {error:.2e}")
            oracle.check(f"22: {name}, {pipeline}: memory", report["peak_rss_bytes"] <= 3 * w.nbytes + (64 << 20), f"{report['peak_rss_bytes']:,}")
            print(f"22: {name}, {pipeline}: {report['changes']} changes, {size:,} -> {out.stat().st_size:,} bytes, "
                  f"{report['peak_rss_bytes'] >> 20} MB")


def main():
    oracle = Oracle()
    for trap in (strange_operator, every_position, mixed_types, big_weights):
        before = len(oracle.failed)
        trap(oracle)
        print(f"{trap.__name__}: {'ok' if len(oracle.failed) == before else 'FAILED'}")
    oracle.finish()


main()
