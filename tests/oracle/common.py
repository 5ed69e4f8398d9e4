"""What the oracle scripts share: calling nibble, running ONNX Runtime, seeded inputs, counting checks."""
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime as ort

REAL_MODELS = ["mnist", "super_resolution", "fr_age", "fr_detect", "fr_feature", "fr_pose", "version-RFB-320",
               "bert_mlm_random", "ch_PP-OCRv4_det_infer", "ch_PP-OCRv4_rec_infer", "ch_ppocr_mobile_v2.0_cls_infer",
               "dtln_model_1", "silero_vad_v5", "t5_encoder_random", "t5_decoder_random", "gpt2_kv_random",
               "llm_attention24_random"]
DIGIT_NETS = ["digits_cnn", "digits_vit"]


class NotSupported(RuntimeError):
    """nibble ended with exit code 4."""


class Oracle:
    """One script: its arguments, a scratch folder, and the tally that ends it."""

    def __init__(self):
        self.nibble, self.shared, self.source = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
        self.digits = self.source / "testdata" / "digits"
        self.passed, self.failed = 0, []
        self._scratch = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self._scratch.name)

    def models(self, names=REAL_MODELS):
        """The digit nets, and the real models of these names where their folder is there."""
        paths = [self.digits / f"{name}.onnx" for name in DIGIT_NETS]
        if self.shared.is_dir():
            return paths + [self.shared / f"{name}.onnx" for name in names]
        print(f"NOT RUN: {', '.join(names)}: their folder is absent")
        return paths

    def check(self, what, condition, detail=""):
        if condition:
            self.passed += 1
        else:
            self.failed.append(what)
            print(f"FAILED {what}: {detail}")
        return condition

    def finish(self):
        print(f"{self.passed} passed, {len(self.failed)} failed")
        sys.exit(1 if self.failed else 0)

    def run(self, *args):
        """A finished process; a negative return code is a crash."""
        return subprocess.run([self.nibble, *map(str, args)], capture_output=True, text=True, timeout=600)

    def json(self, *args):
        done = self.run(*args, "--json")
        if done.returncode != 0:
            raise RuntimeError(f"nibble {' '.join(map(str, args))}: exit {done.returncode}\n{done.stderr}")
        return json.loads(done.stdout)

    def outputs(self, model, feeds, *options):
        """What our executor answers to one sample, of any leading dims: a folder's archives are not cut into samples."""
        samples, out = self.folder / "in", self.folder / "out.npz"
        samples.mkdir(exist_ok=True)
        np.savez(samples / "in.npz", **feeds)
        done = self.run("run", model, "--data", samples, "-o", out, "--quiet", *options)
        if done.returncode != 0:
            kind = NotSupported if done.returncode == 4 else RuntimeError
            raise kind(f"nibble run {model}: exit {done.returncode}\n{done.stderr}")
        with np.load(out) as arrays:
            return {name: arrays[name] for name in arrays.files}


def session(model, level=None, optimized=None, exact=False):
    """An ONNX Runtime session on one thread; `level` is the accuracy of the MatMulNBits it fuses. With `exact`, sums of
    8-bit products don't saturate at 16 bits on machines without VNNI."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    if level is not None:
        options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", str(level))
    if exact:
        options.add_session_config_entry("session.x64quantprecision", "1")
    if optimized is not None:
        options.optimized_model_filepath = str(optimized)
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    return ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


# Dims of inputs that a model takes in certain shapes only, for a dynamic length of d.
SHAPES = {
    "ch_PP-OCRv4_det_infer": lambda d: {"x": [1, 3, 32 * (d // 4 + 1), 96]},
    "ch_PP-OCRv4_rec_infer": lambda d: {"x": [1, 3, 48, 16 * d]},
    "ch_ppocr_mobile_v2.0_cls_infer": lambda d: {"x": [1, 3, 48, 16 * d + 32]},
    "silero_vad_v5": lambda d: {"input": [1, 512], "state": [2, 1, 128], "sr": []},
    "gpt2_kv_random": lambda d: {"input_ids": [1, d], "position_ids": [1, d], "attention_mask": [1, d + 3],
                                 **{f"past_{i}": [2, 1, 4, 3, 8] for i in range(5)}},
    "llm_attention24_random": lambda d: {"input_ids": [1, d // 2], "position_ids": [1, d // 2], "attention_mask": [1, d // 2 + 3],
                                         "past_key_values.0.key": [1, 2, 3, 8], "past_key_values.0.value": [1, 2, 3, 8]},
}
VOCABULARY = {"llm_attention24_random": 32}


def page(random, dims):
    """Dark strokes in lines on white, as a text detector wants them: on noise all its answers are next to 0, where ONNX
    Runtime's Sigmoid has a floor of its own."""
    image = np.ones(dims, np.float32)
    for top in range(8, dims[2] - 20, 32):
        for left in range(6, dims[3] - 8, 6):
            height, down = random.integers(6, 14), random.integers(0, 4)
            image[:, :, top + down:top + down + height, left:left + random.integers(2, 5)] = -1
    return image


def feeds_for(model, seed, dynamic=8):
    """Seeded inputs of the right kinds: token ids, positions, masks of ones, floats from a normal distribution."""
    random = np.random.default_rng(seed)
    feeds, sizes = {}, {}
    fixed = SHAPES.get(model.stem, lambda d: {})(dynamic)
    for spec in session(model).get_inputs():
        dims = fixed.get(spec.name)
        if dims is None:
            dims = [d if isinstance(d, int) and d > 0 else 1 if i == 0 else sizes.setdefault(d, dynamic)
                    for i, d in enumerate(spec.shape)]
        dtype = {"tensor(float)": np.float32, "tensor(int32)": np.int32}.get(spec.type, np.int64)
        if "mask" in spec.name:
            feeds[spec.name] = np.ones(dims, dtype)
        elif model.stem == "ch_PP-OCRv4_det_infer":
            feeds[spec.name] = page(random, dims)
        elif dtype == np.float32:
            feeds[spec.name] = random.standard_normal(dims).astype(dtype)
        elif "type" in spec.name:
            feeds[spec.name] = np.zeros(dims, dtype)
        elif spec.name == "sr":
            feeds[spec.name] = np.array(16000, dtype)
        elif "position" in spec.name:
            feeds[spec.name] = np.arange(dims[1], dtype=dtype)[None] + 3
        else:
            feeds[spec.name] = random.integers(0, VOCABULARY.get(model.stem, 1000), dims, dtype=dtype)
    return feeds


def answers(ort_session, feeds):
    return dict(zip([o.name for o in ort_session.get_outputs()], ort_session.run(None, feeds)))


def relative_rms(reference, got):
    reference, got = np.asarray(reference, np.float64), np.asarray(got, np.float64)
    if reference.shape != got.shape:
        return float("inf")
    scale = np.sqrt((reference ** 2).mean())
    error = np.sqrt(((got - reference) ** 2).mean())
    return error / scale if scale > 0 else float("inf") if error > 0 else 0.0


def sqnr(reference, got):
    """In dB."""
    reference, got = np.asarray(reference, np.float64), np.asarray(got, np.float64)
    return 10 * np.log10((reference ** 2).sum() / max(((reference - got) ** 2).sum(), 1e-300))


def worst(reference, got):
    return max(relative_rms(reference[name], got[name]) for name in reference)


def save(path, nodes, inputs, outputs, initializers, opset=21, ir_version=10, **kwargs):
    """A small model for a test; inputs and outputs as (name, element type, dims)."""
    info = lambda v: onnx.helper.make_tensor_value_info(*v)
    graph = onnx.helper.make_graph(nodes, "g", [info(v) for v in inputs], [info(v) for v in outputs],
                                   [onnx.numpy_helper.from_array(value, name) for name, value in initializers.items()])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=ir_version, **kwargs)
    onnx.save(model, path)
    return path
