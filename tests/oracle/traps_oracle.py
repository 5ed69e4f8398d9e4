"""Faults of other tools, each with the right behaviour here, end to end and with ONNX Runtime as the judge."""
import hashlib
import os

import numpy as np
import onnx
from onnx import helper, numpy_helper

from common import Oracle, answers, relative_rms, save, session

# At level 1 ONNX Runtime computes with float activations, as our executor does.
NBITS = ["--emit", "nbits", "--accuracy-level", "1"]
RANDOM = np.random.default_rng(11)


def normal(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def matmul(path, weight, opset=21, ir_version=10, nodes=None, **more):
    k, n = weight.shape
    return save(path, nodes or [helper.make_node("MatMul", ["x", "w"], ["y"], name="layer")], [("x", 1, ["m", k])],
                [("y", 1, ["m", n])], {"w": weight, **more}, opset, ir_version)


def agrees(oracle, what, path, feeds, limit=1e-5):
    expected = answers(session(path, level=1), feeds)
    got = oracle.outputs(path, feeds)
    error = max(relative_rms(expected[name], got[name]) for name in expected)
    oracle.check(what, error <= limit, f"relative RMS {error:.2e}")


def second_run_and_failed_run(oracle):  # 5
    out = oracle.folder / "out.onnx"
    model = oracle.digits / "digits_vit.onnx"
    digests = []
    for _ in range(2):
        oracle.json("quantize", model, "-o", out, "--external-data", "always")
        digests.append([hashlib.sha256((oracle.folder / n).read_bytes()).hexdigest() for n in ("out.onnx", "out.onnx.data")])
    oracle.check("5: a second run gives the same files", digests[0] == digests[1])
    done = oracle.run("quantize", model, "-o", out, "--min-coverage", "1.01")
    oracle.check("5: a refused run leaves the old files", done.returncode != 0 and digests[0] == [
        hashlib.sha256((oracle.folder / n).read_bytes()).hexdigest() for n in ("out.onnx", "out.onnx.data")])
    oracle.json("quantize", model, "-o", out, "--external-data", "never")
    session(out)
    oracle.check("5: inline after external loads", True)


def opset_is_converted(oracle):  # 6
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"], name="layer"),
             helper.make_node("Unsqueeze", ["a"], ["b"], axes=[1]),
             helper.make_node("Softmax", ["b"], ["c"]), helper.make_node("Squeeze", ["c"], ["d"], axes=[1]),
             helper.make_node("ReduceSum", ["d"], ["y"], axes=[1], keepdims=1)]
    path = save(oracle.folder / "old.onnx", nodes, [("x", 1, ["m", 64])], [("y", 1, ["m", 1])], {"w": normal(64, 32)}, 11, 6)
    out = oracle.folder / "new.onnx"
    oracle.json("quantize", path, "-o", out)
    onnx.checker.check_model(str(out), full_check=True)
    opset = onnx.load(out).opset_import[0].version
    oracle.check("6: the opset rises with the form", opset == 21, str(opset))
    agrees(oracle, "6: the converted model runs the same", out, {"x": normal(3, 64)})


def options_have_effect(oracle):  # 7
    path = matmul(oracle.folder / "m.onnx", normal(64, 32))
    for options in (["--accuracy-level", "1"], ["--emit", "nbits", "--group-size", "48"], ["--group-size", "0"],
                    ["--weights", "int3"], ["--skip", "nothing"], ["--only", "nothing"], ["--skip-op", "Conv"]):
        done = oracle.run("quantize", path, "-o", oracle.folder / "o.onnx", *options)
        oracle.check(f"7/8: {' '.join(options)} is refused", done.returncode == 2 and not (oracle.folder / "o.onnx").exists(),
                     f"exit {done.returncode}")
    found = {}
    for options in ([], ["--weights", "int8"], ["--group-size", "16"], ["--scheme", "asymmetric"], ["--emit", "nbits"],
                    ["--scale-type", "fp16"], ["--target", "onnxruntime-cpu"], ["--group-size", "channel"]):
        oracle.json("quantize", path, "-o", oracle.folder / "o.onnx", *options)
        found[(oracle.folder / "o.onnx").read_bytes()] = options
    oracle.check("7: each option changes the file", len(found) == 8, str(list(found.values())))


def every_weight_has_a_verdict(oracle):  # 8
    for model in oracle.models():
        report = oracle.json("quantize", model, "--plan")
        proto = onnx.load(model)
        names = {t.name for t in proto.graph.initializer if len(t.dims) >= 2 and t.data_type == 1}
        seen = [v["weight"] for v in report["verdicts"]]
        read = {i for n in proto.graph.node for i in n.input}
        oracle.check(f"8: {model.stem}", len(set(seen)) == len(seen) and names & read <= set(seen), str(names & read - set(seen)))
        oracle.check(f"8: {model.stem} says why", all(v["reason"] for v in report["verdicts"]))
    vit = oracle.digits / "digits_vit.onnx"
    report = oracle.json("quantize", vit, "-o", oracle.folder / "o.onnx", "--skip", "blocks.0")
    skipped = [v for v in report["verdicts"] if v["verdict"] == "skipped"]
    oracle.check("8: a skip list matches names", len(skipped) == 4 and all("--skip" in v["reason"] for v in skipped), str(len(skipped)))
    kept = {n.name for n in onnx.load(oracle.folder / "o.onnx").graph.node}
    oracle.check("8: nodes keep their names", {n.name for n in onnx.load(vit).graph.node if n.op_type in ("MatMul", "Gemm")} <= kept)


def gemm_variants(oracle):  # 10
    for trans_a in (0, 1):
        for trans_b in (0, 1):
            for alpha, beta, bias in ((1.0, 1.0, None), (1.0, 1.0, (24,)), (0.5, 2.0, (24,)), (1.0, 1.0, (3, 24)), (2.0, 0.0, (1,))):
                weight = normal(24, 40) if trans_b else normal(40, 24)
                inits = {"w": weight} | ({"c": normal(*bias)} if bias else {})
                node = helper.make_node("Gemm", ["x", "w"] + (["c"] if bias else []), ["y"], transA=trans_a, transB=trans_b,
                                        alpha=alpha, beta=beta)
                path = save(oracle.folder / "gemm.onnx", [node], [("x", 1, [40, 3] if trans_a else [3, 40])], [("y", 1, [3, 24])], inits)
                x = normal(40, 3) if trans_a else normal(3, 40)
                exact = answers(session(path), {"x": x})["y"]
                for emit in ("qdq", "nbits"):
                    out = oracle.folder / "gemm_q.onnx"
                    oracle.json("quantize", path, "-o", out, "--weights", "int8", "--emit", emit)
                    what = f"10: Gemm transA={trans_a} transB={trans_b} alpha={alpha} beta={beta} C={bias} {emit}"
                    agrees(oracle, what, out, {"x": x}, 1e-5 if emit == "qdq" else 1e-2)
                    error = relative_rms(exact, oracle.outputs(out, {"x": x})["y"])
                    oracle.check(what + " is near float", error < 0.02, f"{error:.3f}")


def layer_norm_stays(oracle):  # 14
    report = oracle.json("quantize", oracle.digits / "digits_vit.onnx", "-o", oracle.folder / "o.onnx", "--only", ".*")
    before, after = onnx.load(oracle.digits / "digits_vit.onnx"), onnx.load(oracle.folder / "o.onnx")
    for kind in ("Pow", "Sqrt", "Div", "ReduceMean", "Sub", "Softmax"):
        count = lambda m: sum(n.op_type == kind for n in m.graph.node)
        oracle.check(f"14: every {kind} stays", count(before) == count(after))
    values = {t.name: numpy_helper.to_array(t) for t in before.graph.initializer if "norm" in t.name}
    kept = {t.name: numpy_helper.to_array(t) for t in after.graph.initializer if t.name in values}
    oracle.check("14: its constants are as they were", values.keys() == kept.keys() and all((values[n] == kept[n]).all() for n in values))
    oracle.check("14: the matrices are quantized", report["coverage"] > 0.99, str(report["coverage"]))


def names_do_not_collide(oracle):  # 17
    weight = normal(32, 16)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"], name="w.codes"), helper.make_node("Add", ["a", "w.scales"], ["b"], name="w.scales"),
             helper.make_node("Add", ["b", "w.zero_points"], ["y"], name="w.dequantize")]
    path = matmul(oracle.folder / "m.onnx", weight, nodes=nodes, **{"w.scales": normal(16), "w.zero_points": normal(16)})
    for emit in ("qdq", "nbits"):
        out = oracle.folder / "o.onnx"
        oracle.json("quantize", path, "-o", out, "--scheme", "asymmetric", "--emit", emit, *(["--accuracy-level", "1"] if emit == "nbits" else []))
        onnx.checker.check_model(str(out), full_check=True)
        agrees(oracle, f"17: {emit}", out, {"x": normal(3, 32)})


def tails(oracle):  # 19
    for k, n in ((33, 7), (100, 5), (250, 3), (31, 8), (1, 4), (17, 1)):
        path = matmul(oracle.folder / "m.onnx", normal(k, n))
        for weights in ("int4", "int8", "uint4"):
            for scheme in ("symmetric", "asymmetric"):
                for emit in ("qdq", "nbits"):
                    out = oracle.folder / "o.onnx"
                    oracle.json("quantize", path, "-o", out, "--weights", weights, "--scheme", scheme, "--emit", emit,
                                *(["--accuracy-level", "1"] if emit == "nbits" else []))
                    agrees(oracle, f"19: K={k} N={n} {weights} {scheme} {emit}", out, {"x": normal(2, k)}, 2e-5)


def odd_values(oracle):  # 25
    for value, name in ((np.nan, "NaN"), (np.inf, "infinite")):
        weight = normal(64, 8)
        weight[3, 2] = weight[40, 1] = value
        path = matmul(oracle.folder / "bad.onnx", weight)
        before = sorted(os.listdir(oracle.folder))
        done = oracle.run("quantize", path, "-o", oracle.folder / "never.onnx")
        oracle.check(f"25: {value} is an error with name and count", done.returncode == 3 and "'w'" in done.stderr and "2 NaN" in done.stderr,
                     f"{done.returncode} {done.stderr}")
        oracle.check(f"25: {value} writes nothing", sorted(os.listdir(oracle.folder)) == before)
        oracle.json("quantize", path, "-o", oracle.folder / "clamped.onnx", "--clamp-non-finite")
        got = oracle.outputs(oracle.folder / "clamped.onnx", {"x": normal(2, 64)})["y"]
        oracle.check(f"25: clamped {value} is finite", np.isfinite(got).all())
    weight = normal(64, 8)
    weight[:32, 3] = 0
    weight[:, 5] = 0
    path = matmul(oracle.folder / "zero.onnx", weight)
    for scheme in ("symmetric", "asymmetric"):
        oracle.json("quantize", path, "-o", oracle.folder / "o.onnx", "--scheme", scheme)
        scales = [numpy_helper.to_array(t) for t in onnx.load(oracle.folder / "o.onnx").graph.initializer if t.name.endswith("scales")][0]
        oracle.check(f"25: all-zero groups have scale 1, {scheme}", (scales[0, 3], *scales[:, 5]) == (1, 1, 1))
        agrees(oracle, f"25: zeros, {scheme}", oracle.folder / "o.onnx", {"x": normal(2, 64)})
        got = oracle.outputs(oracle.folder / "o.onnx", {"x": normal(2, 64)})["y"]
        oracle.check(f"25: a zero column stays zero, {scheme}", (got[:, 5] == 0).all())


def unsorted_nodes(oracle):  # 30
    nodes = [helper.make_node("Relu", ["a"], ["y"]), helper.make_node("MatMul", ["x", "w"], ["a"], name="layer")]
    path = matmul(oracle.folder / "unsorted.onnx", normal(64, 8), nodes=nodes)
    out = oracle.folder / "o.onnx"
    oracle.json("quantize", path, "-o", out)
    onnx.checker.check_model(str(out), full_check=True)
    agrees(oracle, "30: an unsorted model", out, {"x": normal(2, 64)})


def weights_in_constant_nodes(oracle):  # 4
    constant = lambda name: helper.make_node("Constant", [], [name], value=numpy_helper.from_array(normal(64, 64), name))
    body = helper.make_function("local", "head", ["a"], ["b"], [constant("v"), helper.make_node("MatMul", ["a", "v"], ["b"])],
                                [helper.make_opsetid("", 21)])
    branch = lambda name: helper.make_graph([constant(f"{name}_w"), helper.make_node("MatMul", ["h", f"{name}_w"], [f"{name}_y"])],
                                            name, [], [helper.make_tensor_value_info(f"{name}_y", 1, [2, 64])])
    nodes = [constant("w"), helper.make_node("MatMul", ["x", "w"], ["g"]), helper.make_node("head", ["g"], ["h"], domain="local"),
             helper.make_node("If", ["c"], ["y"], then_branch=branch("p"), else_branch=branch("q"))]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", 1, [2, 64]), helper.make_tensor_value_info("c", 9, [])],
                              [helper.make_tensor_value_info("y", 1, [2, 64])])
    path, out = oracle.folder / "constants.onnx", oracle.folder / "apart.onnx"
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("local", 1)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=10, functions=[body]), path)
    for options in ([], ["--weights", "int8", "--group-size", "channel"], NBITS):
        report = oracle.json("quantize", path, "-o", out, "--external-data", "always", *options)
        oracle.check(f"4: every Constant is quantized, {options}", report["coverage"] == 1.0)
        small = out.stat().st_size < 8000 and out.with_name("apart.onnx.data").stat().st_size >= 4 * 64 * 64 // 2
        oracle.check(f"4: their bytes lie in the data file, {options}", small, f"{out.stat().st_size} bytes of model")
        agrees(oracle, f"4: and load, {options}", out, {"x": normal(2, 64), "c": np.array(True)})


def transposed_convolution_axis(oracle):  # 9
    for group, c, m in ((1, 6, 4), (2, 6, 4), (6, 6, 1)):
        weight = normal(c, m, 3, 3) * 10.0 ** np.arange(-3, m - 3).reshape(1, m, 1, 1).astype(np.float32)
        if m == 1:
            weight *= 10.0 ** np.arange(-3, c - 3).reshape(c, 1, 1, 1).astype(np.float32)
        path = save(oracle.folder / "t.onnx", [helper.make_node("ConvTranspose", ["x", "w"], ["y"], group=group)],
                    [("x", 1, [1, c, 5, 5])], [("y", 1, None)], {"w": weight})
        out, feeds = oracle.folder / "o.onnx", {"x": normal(1, c, 5, 5)}
        oracle.json("quantize", path, "-o", out, "--weights", "int8", "--group-size", "channel")
        agrees(oracle, f"9: {group} groups", out, feeds)
        y, quantized = answers(session(path), feeds)["y"], answers(session(out), feeds)["y"]
        errors = [relative_rms(y[:, k], quantized[:, k]) for k in range(y.shape[1])]
        oracle.check(f"9: {group} groups, every channel keeps its precision", max(errors) <= 0.02, str(errors))


def captured_weights(oracle):  # 16
    branch = lambda name: helper.make_graph([helper.make_node("MatMul", ["x", "w"], [f"{name}_y"])], name, [],
                                            [helper.make_tensor_value_info(f"{name}_y", 1, [2, 32])])
    nodes = [helper.make_node("If", ["c"], ["y"], then_branch=branch("p"), else_branch=branch("q"))]
    path = save(oracle.folder / "captured.onnx", nodes, [("x", 1, [2, 64]), ("c", 9, [])], [("y", 1, [2, 32])],
                {"w": normal(64, 32)})
    for emit in ([], NBITS):
        for chosen in (True, False):
            out = oracle.folder / "o.onnx"
            report = oracle.json("quantize", path, "-o", out, *emit)
            oracle.check(f"16: quantized though only bodies read it, {emit}", report["coverage"] == 1.0)
            agrees(oracle, f"16: branch {chosen}, {emit}", out, {"x": normal(2, 64), "c": np.array(chosen)})


def tied_embedding(oracle):  # 18
    nodes = [helper.make_node("Gather", ["w", "i"], ["e"]), helper.make_node("Transpose", ["w"], ["t"]),
             helper.make_node("MatMul", ["e", "t"], ["y"]), helper.make_node("MatMul", ["e", "t"], ["z"])]
    path = save(oracle.folder / "tied.onnx", nodes, [("i", 7, ["n"])], [("y", 1, None), ("z", 1, None)], {"w": normal(300, 64)})
    out = oracle.folder / "o.onnx"
    oracle.json("quantize", path, "-o", out, *NBITS)
    agrees(oracle, "18: three readers of one table", out, {"i": np.arange(7)})
    once = 300 * 64 // 2 + 300 * 2 * 4
    oracle.check("18: its codes are in the file once", out.stat().st_size < once + 2500, f"{out.stat().st_size} for {once}")


def half_types(oracle):  # 21
    weights = {"w": normal(64, 32).astype(np.float16), "b": normal(32).astype(np.float16)}
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Add", ["h", "b"], ["y"])]
    path = save(oracle.folder / "half.onnx", nodes, [("x", 10, [2, 64])], [("y", 10, [2, 32])], weights)
    out = oracle.folder / "o.onnx"
    for options in ([], ["--scale-type", "fp32"], ["--weights", "int8", "--group-size", "channel"], NBITS):
        oracle.json("quantize", path, "-o", out, *options)
        onnx.checker.check_model(str(out), full_check=True)
        agrees(oracle, f"21: types of a float16 model agree, {options}", out, {"x": normal(2, 64).astype(np.float16)}, 2e-3)


# Of tests/cli/models/mlp.onnx: the same on every machine.
DIGESTS = {"": "3c6d3fa374180288", "--weights int8 --group-size channel": "e7ca0f2fb6bc30a2", "--emit nbits --scheme asymmetric": "b6726a6f6eca08a3",
           "--target onnxruntime-cpu --scale-type fp16": "4f6b1e3c80a6712e", "--skip fc1 --keep fp16": "4c8d718eef8c7e97"}


def same_bytes_everywhere(oracle):  # 28
    model = oracle.source / "tests" / "cli" / "models" / "mlp.onnx"
    for options, digest in DIGESTS.items():
        out = oracle.folder / "o.onnx"
        oracle.json("quantize", model, "-o", out, *options.split())
        found = hashlib.sha256(out.read_bytes()).hexdigest()[:16]
        oracle.check(f"28: the bytes of '{options}'", found == digest, f"{found} where {digest} is known")


def main():
    oracle = Oracle()
    for trap in (second_run_and_failed_run, opset_is_converted, options_have_effect, every_weight_has_a_verdict, gemm_variants,
                 layer_norm_stays, names_do_not_collide, tails, odd_values, unsorted_nodes,
                 weights_in_constant_nodes, transposed_convolution_axis, captured_weights, tied_embedding, half_types,
                 same_bytes_everywhere):
        before = len(oracle.failed)
        trap(oracle)
        print(f"{trap.__name__}: {'ok' if len(oracle.failed) == before else 'FAILED'}")
    oracle.finish()


main()
