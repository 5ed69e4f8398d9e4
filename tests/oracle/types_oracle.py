"""What `nibble check --target onnxruntime-cpu` says of element types against ONNX Runtime itself.

Models of one node are ONNX's own test cases, with the type of the operator's main input (the first that may have
several) changed to each type that ONNX allows, at the newest opset that the target reads. `target.type` must be found
where ONNX Runtime has no kernel, and only there. Cases that ONNX Runtime refuses for another reason tell nothing.
"""
import collections
import copy
import json
import pathlib

import onnx
import onnxruntime as ort
from onnx import TensorProto, helper

from common import Oracle

MAX_OPSET = 26
MS = "com.microsoft"
# Refused when a tensor of the type is made, before any kernel is looked for.
NO_KERNEL = ("Could not find an implementation", "is not currently registered or supported")
ELEMENT = {"float": TensorProto.FLOAT, "double": TensorProto.DOUBLE}


def element(type_text):
    name = type_text[len("tensor("):-1]
    return ELEMENT.get(name) or TensorProto.DataType.Value(name.upper())


def test_cases():
    """The newest cases of one node without bodies, by operator; eight of each are enough."""
    out = collections.defaultdict(list)
    folder = pathlib.Path(onnx.__file__).parent / "backend" / "test" / "data" / "node"
    for path in sorted(folder.glob("test_*/model.onnx")):
        model = onnx.load(path)
        if "expanded" in path.parent.name or len(model.graph.node) != 1 or model.functions:
            continue
        node = model.graph.node[0]
        if node.domain == "" and not any(a.HasField("g") or a.graphs for a in node.attribute):
            out[node.op_type].append(model)
    for op, models in out.items():
        newest = max(m.opset_import[0].version for m in models)
        models = [m for m in models if m.opset_import[0].version == newest]
        out[op] = models if len(models) <= 8 else models[:6] + models[-2:]
    return out


class Retyper:
    def __init__(self, schema):
        self.inputs, self.outputs = list(schema.inputs), list(schema.outputs)
        self.allowed = {
            c.type_param_str: [t for t in c.allowed_type_strs if t.startswith("tensor(")]
            for c in schema.type_constraints
        }
        varying = [p.type_str for p in self.inputs if len(self.allowed.get(p.type_str, [])) > 1]
        self.main = varying[0] if varying else None

    def values(self, node, variables):
        return {
            v
            for names, formal in ((node.input, self.inputs), (node.output, self.outputs)) for i, v in enumerate(names)
            if v and formal[min(i, len(formal) - 1)].type_str in variables
        }

    def model(self, base, new_type, with_others):
        """A copy whose main type is new; `with_others`: other type variables that had the same type follow."""
        model = copy.deepcopy(base)
        node, infos = model.graph.node[0], list(model.graph.input) + list(model.graph.output)
        types = {info.name: info.type for info in infos}

        def bound(variable):
            return {types[v].tensor_type.elem_type for v in self.values(node, {variable}) if v in types}

        variables = {self.main}
        if with_others:
            variables |= {v for v in self.allowed if new_type in self.allowed[v] and bound(v) == bound(self.main)}
        names = self.values(node, variables)
        if any(t.name in names for t in model.graph.initializer):
            return None
        for name in names:
            if not types[name].HasField("tensor_type"):
                return None
            types[name].tensor_type.elem_type = element(new_type)
        model.opset_import[0].version = min(model.opset_import[0].version, MAX_OPSET)
        model.ir_version = min(model.ir_version, 13)
        return model


def runs(model):
    """True, False where there is no kernel, None where something else is wrong with the model."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    try:
        ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # the bindings raise a class for each kind
        return False if any(text in str(error) for text in NO_KERNEL) else None
    return True


def refused(oracle, model):
    """Whether nibble finds target.type; None when it can't read the model."""
    path = oracle.folder / "m.onnx"
    onnx.save(model, path)
    done = oracle.run("check", path, "--target", "onnxruntime-cpu", "--json")
    if done.returncode not in (0, 1):
        return None
    return any(f["id"] == "target.type" for f in json.loads(done.stdout)["findings"])


def compare(oracle, what, models):
    """`models`: the ways to give a node this type. One that loads shows that there is a kernel."""
    answers = [(runs(m), m) for m in models]
    loading = [m for answer, m in answers if answer]
    if not loading and any(answer is None for answer, _ in answers):
        return 0
    found = refused(oracle, loading[0] if loading else answers[0][1])
    if found is None:
        return 0
    oracle.check(what, found != bool(loading), f"ONNX Runtime {'runs' if loading else 'refuses'} it")
    return 1


def onnx_operators(oracle):
    told = 0
    for op, cases in sorted(test_cases().items()):
        try:
            retyper = Retyper(onnx.defs.get_schema(op, min(cases[0].opset_import[0].version, MAX_OPSET), ""))
        except onnx.defs.SchemaError:  # younger
            continue
        # RoiAlign has a kernel for older opsets alone; Shape and Size of known dims ask nothing of a runtime.
        if retyper.main is None or op in ("RoiAlign", "Shape", "Size"):
            continue
        for new_type in retyper.allowed[retyper.main]:
            models = [retyper.model(case, new_type, others) for case in cases for others in (False, True)]
            models = [m for m in models if m is not None]
            if models:
                told += compare(oracle, f"{op} of {new_type}", models)
    oracle.check("most operators and types can be tried", told > 900, str(told))


def microsoft_operators(oracle):
    vector, matrix, image = [4], [4, 4], [1, 4, 4, 4]
    nodes = {
        "BiasGelu": [matrix, vector],
        "FastGelu": [matrix],
        "FusedConv": [image, [4, 4, 1, 1]],
        "FusedMatMul": [matrix, matrix],
        "Gelu": [matrix],
        "QuickGelu": [matrix],
        "SkipLayerNormalization": [[1, 4, 4], [1, 4, 4], vector],
        "SkipSimplifiedLayerNormalization": [[1, 4, 4], [1, 4, 4], vector],
    }
    for op, shapes in nodes.items():
        for dtype in (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE):
            names = [f"x{i}" for i in range(len(shapes))]
            more = {"activation": "Relu"} if op == "FusedConv" else {}
            inputs = [helper.make_tensor_value_info(n, dtype, s) for n, s in zip(names, shapes)]
            graph = helper.make_graph([helper.make_node(op, names, ["y"], domain=MS, **more)], "g", inputs,
                                      [helper.make_tensor_value_info("y", dtype, None)])
            model = helper.make_model(graph, ir_version=10,
                                      opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(MS, 1)])
            compare(oracle, f"{MS}:{op} of {TensorProto.DataType.Name(dtype)}", [model])


def main():
    ort.set_default_logger_severity(4)
    oracle = Oracle()
    onnx_operators(oracle)
    microsoft_operators(oracle)
    oracle.finish()


main()
