"""What `plan` says a model needs, against what is really written and run: weights at each precision against the constants of
the file that quantize or convert writes, the KV cache against the arrays that ONNX Runtime hands back."""
import numpy as np
import onnx

from common import Oracle, session

LIMIT = 0.01  # of the bytes, and a kilobyte for shapes and axes that the forms need
SLACK = 1024
INT8 = ("--weights", "int8", "--group-size", "channel")


def bytes_of(tensor):
    bits = {onnx.TensorProto.INT4: 4, onnx.TensorProto.UINT4: 4}.get(tensor.data_type)
    if bits is None:
        return onnx.numpy_helper.to_array(tensor).nbytes
    return (int(np.prod(tensor.dims)) * bits + 7) // 8


def constants(graph):
    """Bytes of all constants of a graph or function body, nested bodies included."""
    total = sum(bytes_of(t) for t in getattr(graph, "initializer", []))
    for node in graph.node:
        for a in node.attribute:
            if a.type == onnx.AttributeProto.GRAPH:
                total += constants(a.g)
            elif node.op_type == "Constant":
                if a.type == onnx.AttributeProto.TENSOR:
                    total += bytes_of(a.t)
                else:
                    total += 8 * max(len(a.ints), 1) if a.ints or a.HasField("i") else 4 * max(len(a.floats), 1)
    return total


def written(oracle, model, precision):
    """Bytes of constants of the model as it would be written at this precision; None when it can't be."""
    out = oracle.folder / "out.onnx"
    if precision == "fp32":
        out = model
    else:
        if precision == "fp16":
            command = ("convert", model, "-o", out, "--type", "fp16")
        elif precision == "int8":
            command = ("quantize", model, "-o", out, *INT8)
        else:
            size = precision.split()[-1]
            command = ("quantize", model, "-o", out, "--weights", "int4", "--group-size", size)
        done = oracle.run(*command)
        if not oracle.check(f"{model.stem}: {precision} is written", done.returncode == 0, done.stderr[-300:]):
            return None
    made = onnx.load(str(out))
    return constants(made.graph) + sum(constants(f) for f in made.functions)


def check_weights(oracle, model):
    for row in oracle.json("plan", model)["precisions"]:
        real = written(oracle, model, row["precision"])
        if real is None:
            continue
        said = row["weight_bytes"]
        near = abs(said - real) <= max(LIMIT * real, SLACK)
        oracle.check(f"{model.stem}: weights at {row['precision']}", near, f"{said} planned, {real} written")


def check_cache(oracle, model, batch, past, fresh):
    plan = oracle.json("plan", model, "--sequence", past + fresh, "--batch", batch)
    run = session(model)
    rng = np.random.default_rng(0)
    feeds = {}
    for i in run.get_inputs():
        if "past" in i.name:
            dims = [d if isinstance(d, int) else batch if "batch" in d else past for d in i.shape]
            feeds[i.name] = rng.standard_normal(dims).astype(np.float32)
        else:
            length = past + fresh if "mask" in i.name else fresh
            kind = np.int32 if "int32" in i.type else np.int64
            feeds[i.name] = np.ones((batch, length), kind)
    outputs = [o.name for o in run.get_outputs() if "present" in o.name]
    real = sum(a.nbytes for a in run.run(outputs, feeds))
    said = plan["cache"]["bytes"]
    oracle.check(f"{model.stem}: cache of {batch}x{past + fresh}", said == real, f"{said} planned, {real} come out")


def main():
    oracle = Oracle()
    for model in oracle.models():
        check_weights(oracle, model)
    decoders = [oracle.source / "tests/cli/models/decoder.onnx"]
    decoders += [m for m in oracle.models() if m.stem in ("gpt2_kv_random", "llm_attention24_random")]
    for model in decoders:
        check_cache(oracle, model, 1, 31, 1)
        # The mask that llm_attention24_random makes is of one sequence.
        check_cache(oracle, model, 1 if "llm" in model.stem else 2, 7, 1)
    oracle.finish()


main()
