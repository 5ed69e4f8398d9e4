"""Models that carry state, 20 steps one after another: our executor on its own states beside ONNX Runtime on its own.

Errors add up from step to step; the limit on every output of every step is 1e-5 all the same.
"""
import numpy as np

from common import VOCABULARY, Oracle, answers, session, worst

STEPS = 20
LIMIT = 1e-5


def token(name, random, past, dtype):
    """One token behind `past` earlier ones; position tables may end at 16."""
    return {"input_ids": random.integers(0, VOCABULARY.get(name, 1000), (1, 1), dtype=dtype),
            "position_ids": np.full((1, 1), min(past, 15), dtype), "attention_mask": np.ones((1, past + 1), dtype)}


# By model: what a step's own inputs are, at a number of earlier steps; where each output goes in the next step; and the
# states before the first one.
MODELS = {
    "silero_vad_v5": (
        lambda random, past: {"input": random.standard_normal((1, 512)).astype(np.float32) * 0.1, "sr": np.array(16000)},
        {"stateN": "state"}, {"state": (2, 1, 128)}),
    "dtln_model_1": (
        lambda random, past: {"input_2": np.abs(random.standard_normal((1, 1, 257))).astype(np.float32)},
        {"tf_op_layer_stack_2": "input_3"}, {"input_3": (1, 2, 128, 2)}),
    "gpt2_kv_random": (
        lambda random, past: token("gpt2_kv_random", random, past, np.int32),
        {f"present_{i}": f"past_{i}" for i in range(5)}, {f"past_{i}": (2, 1, 4, 0, 8) for i in range(5)}),
    "llm_attention24_random": (
        lambda random, past: token("llm_attention24_random", random, past, np.int64),
        {f"present.0.{part}": f"past_key_values.0.{part}" for part in ("key", "value")},
        {f"past_key_values.0.{part}": (1, 2, 0, 8) for part in ("key", "value")}),
}


def main():
    oracle = Oracle()
    for model in oracle.models():
        name = model.stem
        if name not in MODELS:
            continue
        inputs, feedback, states = MODELS[name]
        reference, random = session(model), np.random.default_rng(0)
        theirs = ours = {state: np.zeros(dims, np.float32) for state, dims in states.items()}
        errors = []
        for step in range(STEPS):
            feeds = inputs(random, step)
            expected = answers(reference, {**feeds, **theirs})
            got = oracle.outputs(model, {**feeds, **ours})
            errors.append(worst(expected, got))
            oracle.check(f"{name}, step {step}", errors[-1] <= LIMIT, f"relative RMS {errors[-1]:.2e} is above {LIMIT}")
            theirs = {state: expected[output] for output, state in feedback.items()}
            ours = {state: got[output] for output, state in feedback.items()}
        print(f"{name}: relative RMS at the first step {errors[0]:.1e}, at the last {errors[-1]:.1e}, at most {max(errors):.1e}")
    oracle.finish()


main()
