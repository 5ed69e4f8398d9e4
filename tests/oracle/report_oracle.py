"""Reports of real runs: JSON against its schema, the same bytes when run again and on any number of threads, hashes that
hashlib gives too, layers under the names of the original model after fusion and quantization, memory of a layer diff against
that of a plain run, and the layer where a detector's tail collapses."""
import hashlib
import json
import re
from xml.etree import ElementTree

import html5lib
import jsonschema
import onnx
from onnx import helper, numpy_helper, TensorProto
import numpy as np

from common import Oracle

MEMORY = 1.5  # times what a plain run adds
FORMS = ("json", "html", "md", "xml")
DETECTOR_DIMS = ("--dim", "p2o.DynamicDimension.1=640", "--dim", "p2o.DynamicDimension.2=640")


def check_html(oracle, path):
    """No error by the rules of HTML 5, and nothing fetched from elsewhere."""
    text = path.read_text()
    try:
        html5lib.HTMLParser(strict=True).parse(text)
        problem = ""
    except html5lib.html5parser.ParseError as error:
        problem = str(error)
    oracle.check(f"{path.name}: valid HTML", not problem, problem)
    outside = re.findall(r'(?:src|href)="(?!#|data:)[^"]*"', text)
    oracle.check(f"{path.name}: nothing from elsewhere", not outside, str(outside[:3]))


def check_junit(oracle, path):
    """What readers of JUnit XML rely on: suites with counts that are right, cases with names."""
    root = ElementTree.parse(path).getroot()
    suites = root.iter("testsuite")
    for suite in suites:
        cases = suite.findall("testcase")
        failures = sum(1 for case in cases if case.find("failure") is not None)
        named = all(case.get("name") and case.get("classname") for case in cases)
        counts = (int(suite.get("tests")), int(suite.get("failures")))
        oracle.check(f"{path.name}: {suite.get('name')}", counts == (len(cases), failures) and named, str(counts))


def check_forms(oracle, schema):
    vit, small = oracle.digits / "digits_vit.onnx", oracle.folder / "small.onnx"
    samples, labels = oracle.digits / "heldout.npz", oracle.digits / "labels.npy"
    oracle.run("quantize", vit, "-o", small, "--quiet")
    diff = ["diff", vit, small, "--data", samples, "--labels", labels, "--layers", "--gate", "sqnr>=100", "--quiet"]
    for form in FORMS:
        seen = set()
        for threads in (1, 2, 2):
            out = oracle.folder / f"report.{form}"
            done = oracle.run(*diff, "--threads", threads, "--report", out)
            oracle.check(f"{form}: a gate that is not met", done.returncode == 1, done.stderr)
            seen.add(out.read_bytes())
        oracle.check(f"{form}: the same bytes each time", len(seen) == 1)
    report = json.loads((oracle.folder / "report.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(report)
    oracle.check("a gate in the report", not report["passed"] and not report["gates"][0]["met"])
    for file, path in zip(report["files"], (vit, small, samples, labels)):
        oracle.check(f"hash of {file['role']}", file["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest())
    made = {o for n in onnx.load(vit).graph.node for o in n.output}
    oracle.check("layers are the model's values", all(v["name"] in made for v in report["layers"]["values"]))
    quantize = oracle.json("quantize", vit, "-o", small, "--data", samples)
    jsonschema.Draft202012Validator(schema).validate(quantize)
    improved = oracle.json("quantize", vit, "-o", oracle.folder / "integer.onnx", "--activations", "uint8", "--calib", samples,
                           "--improve", "balance", "--improve", "correct-bias")
    jsonschema.Draft202012Validator(schema).validate(improved)
    oracle.check("quantize says what was tried", len(improved["improvements"]) == 2 and improved["integer_nodes"])
    ranges = oracle.folder / "ranges.json"
    for command in (["plan", vit], ["calibrate", vit, "--random", 2, "-o", ranges],
                    ["sensitivity", vit, "--random", 1, "--candidates", "int8/channel"],
                    ["sweep", vit, "--random", 2, "--weights", "int8", "--group-size", "64,channel"]):
        jsonschema.Draft202012Validator(schema).validate(oracle.json(*command))
        for form in ("html", "xml"):
            out = oracle.folder / f"{command[0]}.{form}"
            oracle.run(*command, "--quiet", "--report", out)
            (check_html if form == "html" else check_junit)(oracle, out)
    for form, check in (("html", check_html), ("xml", check_junit)):
        check(oracle, oracle.folder / f"report.{form}")
    oracle.check("quantize says what it measured", quantize["measures"]["sqnr"] == quantize["diff"]["outputs"][0]["sqnr_db"])


def check_names_after_fusion(oracle, model, options):
    fused, small = oracle.folder / "fused.onnx", oracle.folder / "fused_small.onnx"
    oracle.run("fuse", model, "-o", fused, "--quiet")
    oracle.run("quantize", fused, "-o", small, "--weights", "int8", "--quiet")
    layers = oracle.json("diff", model, small, "--layers", "--random", 1, *options)["layers"]
    made = {o for n in onnx.load(model).graph.node for o in n.output}
    names = [v["name"] for v in layers["values"]]
    oracle.check(f"{model.stem}: layers after fusion keep the file's names", set(names) <= made and len(names) > 20, len(names))
    print(f"{model.stem}: {len(names)} of {layers['reference_values']} values compared after fusion and quantization")


def rise(report):
    return report["peak_rss_bytes"] - report["rss_before_bytes"]


def check_memory(oracle, model, options):
    """Trap 26."""
    small = oracle.folder / "memory.onnx"
    oracle.run("quantize", model, "-o", small, "--weights", "int8", "--quiet")
    plain = rise(oracle.json("run", model, "--random", 1, *options))
    layers = rise(oracle.json("diff", model, small, "--layers", "--random", 1, *options))
    print(f"{model.stem}: a layer diff takes {layers / plain:.2f} times the memory of a plain run")
    oracle.check(f"{model.stem}: memory of a layer diff", layers <= MEMORY * plain, f"{layers} against {plain}")


def check_collapsed_tail(oracle):
    """Trap 15: a detector whose last weights are so coarse that every confidence is the same."""
    random = np.random.default_rng(5)
    weights = [random.normal(0, 0.2, s).astype(np.float32) for s in ((8, 3, 3, 3), (8, 8, 3, 3), (4, 8, 1, 1))]

    def save(name, tail):
        nodes = [helper.make_node("Conv", ["x", "w0"], ["c0"], "backbone/0", pads=[1, 1, 1, 1]), helper.make_node("Relu", ["c0"], ["r0"], "relu0"),
                 helper.make_node("Conv", ["r0", "w1"], ["c1"], "backbone/1", pads=[1, 1, 1, 1]), helper.make_node("Relu", ["c1"], ["r1"], "relu1"),
                 helper.make_node("Conv", ["r1", "w2"], ["scores"], "head"), helper.make_node("Sigmoid", ["scores"], ["confidence"], "sigmoid")]
        given = [numpy_helper.from_array(w, f"w{i}") for i, w in enumerate([*weights[:2], tail])]
        graph = helper.make_graph(nodes, "detector", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 16, 16])],
                                  [helper.make_tensor_value_info("confidence", TensorProto.FLOAT, [1, 4, 16, 16])], given)
        path = oracle.folder / name
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
        return path

    good, bad = save("good.onnx", weights[2]), save("collapsed.onnx", np.zeros_like(weights[2]))
    report = oracle.json("diff", good, bad, "--random", 3, "--layers", "--line", 20)
    oracle.check("the layer where it collapses is named", report["layers"]["first_below"] == "scores", report["layers"]["first_below"])
    before = {v["name"]: v["sqnr_db"] for v in report["layers"]["values"]}
    oracle.check("what comes before it is the same", before["r1"] == "inf" and float(before["scores"]) < 1, before)


def main():
    oracle = Oracle()
    schema = json.loads((oracle.source / "docs" / "report.schema.json").read_text())
    check_forms(oracle, schema)
    check_collapsed_tail(oracle)
    check_names_after_fusion(oracle, oracle.digits / "digits_vit.onnx", ())
    if oracle.shared.is_dir():
        detector, recogniser = (oracle.shared / f"ch_PP-OCRv4_{n}_infer.onnx" for n in ("det", "rec"))
        check_names_after_fusion(oracle, detector, DETECTOR_DIMS)
        check_names_after_fusion(oracle, recogniser, ("--dim", "p2o.DynamicDimension.1=320"))
        check_memory(oracle, detector, DETECTOR_DIMS)
        page = oracle.folder / "rec.html"
        small = oracle.folder / "rec.onnx"
        oracle.run("quantize", recogniser, "-o", small, "--quiet")
        oracle.run("diff", recogniser, small, "--layers", "--random", 2, "--dim", "p2o.DynamicDimension.1=320", "--report", page, "--quiet")
        oracle.check("the recogniser's page is below 1 MB", page.stat().st_size < 1e6, page.stat().st_size)
    else:
        print("NOT RUN: the detector and the recogniser: their folder is absent")
    oracle.finish()


main()
