"""Our transformer operators against ONNX Runtime: relative RMS of every output, 1e-5 at most, dequantization exact.

Each case is a model of one node with seeded inputs; cases of one operator differ in what is optional.
"""

import itertools

import numpy as np
from onnx import TensorProto, helper

from common import Oracle, answers, relative_rms, session
from node_case import MS, Case

LIMIT = 1e-5
RANDOM = np.random.default_rng(7)


def normal(*dims, dtype=np.float32):
    return RANDOM.standard_normal(dims).astype(dtype)


def integers(low, high, *dims, dtype=np.int64):
    return RANDOM.integers(low, high, dims).astype(dtype)


def packed(element, dims):
    """Random codes of a 4-bit type."""
    count = int(np.prod(dims))
    return helper.make_tensor("", element, dims, RANDOM.bytes((count + 1) // 2), raw=True)


def embeddings():
    indices = np.array([[0, 6, -1], [3, -7, 2]], np.int64)
    for element, axes, zero_points, dtype in itertools.product(
        [TensorProto.INT4, TensorProto.UINT4], [(0, 1), (1, 0), (1, 2), (2, 1)], [False, True], [np.float32, np.float16]
    ):
        gather, quantize = axes
        dims, block = [7, 40, 7], 16
        if gather == 1:
            dims = [40, 7, 40]
        scales = list(dims)
        scales[quantize] = -(-dims[quantize] // block)
        inputs = [packed(element, dims), indices, normal(*scales, dtype=dtype)]
        if zero_points:
            inputs.append(packed(element, scales))
        yield Case(
            f"4 bits {element} {axes} {zero_points} {dtype.__name__}",
            "GatherBlockQuantized",
            inputs,
            constants=(2,),
            limit=0,
            gather_axis=gather,
            quantize_axis=quantize,
            block_size=block,
        )
    for bits, zero_points, index in itertools.product([2, 4, 8], [False, True], [np.int32, np.int64]):
        blocks = 5
        inputs = [integers(0, 256, 7, 72 * bits // 8, dtype=np.uint8), indices.astype(index), normal(7, blocks)]
        if zero_points:
            inputs.append(integers(0, 256, 7, -(-blocks * bits // 8), dtype=np.uint8))
        yield Case(
            f"{bits} bits {zero_points} {index.__name__}",
            "GatherBlockQuantized",
            inputs,
            constants=(0, 2, 3),
            limit=0,
            bits=bits,
            block_size=16,
        )


def norms():
    x, gamma, beta, bias = normal(2, 5, 48), normal(48), normal(48), normal(48)
    for skip in (normal(2, 5, 48), normal(1, 5, 48), normal(5, 48)):
        for with_beta, with_bias in itertools.product([0, 1], [0, 1]):
            yield Case(
                f"{skip.shape} {with_beta}{with_bias}",
                "SkipLayerNormalization",
                [x, skip, gamma, beta if with_beta else None, bias if with_bias else None],
                [1, 0, 0, 1],
                epsilon=1e-5,
            )
    for with_bias in (0, 1):
        yield Case(
            f"{with_bias}",
            "SkipSimplifiedLayerNormalization",
            [x, normal(2, 5, 48), gamma] + [bias] * with_bias,
            [1, 0, 0, 1],
        )
    half = [normal(2, 5, 48, dtype=np.float16), normal(2, 5, 48, dtype=np.float16), normal(48, dtype=np.float16)]
    yield Case("float16", "SkipLayerNormalization", half, limit=1e-3)
    yield Case("last axis", "SimplifiedLayerNormalization", [x, gamma], 1, "", epsilon=1e-6, axis=-1)
    yield Case("two axes", "SimplifiedLayerNormalization", [x, normal(5, 48)], 1, "", axis=1)
    ids, segments = integers(0, 30, 2, 5, dtype=np.int32), integers(0, 2, 2, 5, dtype=np.int32)
    tables = [normal(30, 48), normal(9, 48), normal(2, 48)]
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
    for with_segments, with_mask, positions in itertools.product(
        [0, 1], [0, 1], [None, integers(0, 9, 2, 5, dtype=np.int32), integers(0, 9, 1, 5, dtype=np.int32)]
    ):
        inputs = [
            ids,
            segments if with_segments else None,
            *tables[:2],
            tables[2] if with_segments else None,
            gamma,
            beta,
            mask if with_mask else None,
            positions,
        ]
        while inputs[-1] is None:
            inputs.pop()
        yield Case(
            f"{with_segments}{with_mask} {None if positions is None else positions.shape}",
            "EmbedLayerNormalization",
            inputs,
            3,
            epsilon=1e-5,
            mask_index_type=1,
        )


def activations():
    x, bias = 4 * normal(3, 7, 50), normal(50)
    yield Case("", "Gelu", [x])
    yield Case("", "BiasGelu", [x, bias])
    yield Case("", "FastGelu", [x])
    yield Case("bias", "FastGelu", [x, bias])
    yield Case("", "QuickGelu", [x])
    yield Case("alpha", "QuickGelu", [x], alpha=-0.7)


def masks(batch, queries, keys):
    """Masks of every form that ONNX Runtime's CPU kernel takes, by name."""
    ends, starts = integers(1, keys + 1, batch), integers(0, 2, batch)
    return {
        "no mask": None,
        "lengths": ends.astype(np.int32),
        "ranges": np.concatenate([np.maximum(ends, starts + 1), starts]).astype(np.int32),
        "2-D": np.maximum(integers(0, 2, batch, keys), np.arange(keys) == 0).astype(np.int32),
        "3-D": np.maximum(integers(0, 2, batch, queries, keys), np.arange(keys) == 0).astype(np.int32),
    }


def fused_attention():
    batch, length, width, heads = 2, 6, 48, 4
    x, weights, bias = normal(batch, length, width), 0.3 * normal(width, 3 * width), normal(3 * width)
    for past_length, one_way in itertools.product([None, 0, 5], [0, 1]):
        keys = length + (past_length or 0)
        past = None if past_length is None else normal(2, batch, heads, past_length, width // heads)
        for name, mask in masks(batch, length, keys).items():
            yield Case(
                f"past {past_length} one way {one_way} {name}",
                "Attention",
                [x, weights, bias, mask, past],
                1 if past is None else 2,
                constants=(1, 2),
                num_heads=heads,
                unidirectional=one_way,
            )
    for one_way, dims in itertools.product([0, 1], [(1, 1), (batch, 1), (1, heads), (batch, heads)]):
        yield Case(
            f"one way {one_way} bias {dims}",
            "Attention",
            [x, weights, bias, masks(batch, length, length)["2-D"], None, normal(*dims, length, length)],
            constants=(1, 2),
            num_heads=heads,
            unidirectional=one_way,
        )
    yield Case(
        "step",
        "Attention",
        [normal(1, 1, width), weights, bias, None, normal(2, 1, heads, 9, width // heads)],
        2,
        constants=(1, 2),
        num_heads=heads,
        unidirectional=1,
    )
    yield Case(
        "sizes",
        "Attention",
        [x, normal(width, 32 + 32 + 64), normal(128)],
        constants=(1, 2),
        num_heads=heads,
        qkv_hidden_sizes=[32, 32, 64],
    )
    yield Case(
        "scale and filter",
        "Attention",
        [x, weights, bias, masks(batch, length, length)["2-D"]],
        constants=(1, 2),
        num_heads=heads,
        scale=0.4,
        mask_filter_value=-3.0,
    )
    lowest = float(np.finfo(np.float32).min)
    yield Case(
        "nothing seen",
        "Attention",
        [x, weights, bias, np.zeros((batch, length), np.int32)],
        constants=(1, 2),
        num_heads=heads,
        unidirectional=1,
        mask_filter_value=lowest,
    )
    yield Case(
        "long",
        "Attention",
        [normal(1, 300, 64), 0.2 * normal(64, 192), normal(192)],
        constants=(1, 2),
        num_heads=2,
        unidirectional=1,
    )


def multi_head_attention():
    batch, queries, keys, width, v_width, heads = 2, 6, 9, 48, 32, 4
    q, k, v = normal(batch, queries, width), normal(batch, keys, width), normal(batch, keys, v_width)
    bias = normal(2 * width + v_width)
    for with_bias, one_way in itertools.product([0, 1], [0, 1]):
        for name, mask in masks(batch, queries, keys).items():
            if name == "ranges":
                continue
            yield Case(
                f"cross {with_bias} one way {one_way} {name}",
                "MultiHeadAttention",
                [q, k, v, bias if with_bias else None, mask],
                1,
                num_heads=heads,
                unidirectional=one_way,
            )
    starts = np.arange(batch + 1)
    numbers = np.concatenate([[9, 4], starts * queries, starts * keys]).astype(np.int32)
    yield Case("lengths and starts", "MultiHeadAttention", [q, k, v, None, numbers], num_heads=heads)
    past, bias2 = [normal(batch, heads, 5, 12), normal(batch, heads, 5, 12)], normal(3 * width)
    for one_way, dims in itertools.product([0, 1], [None, (1, 1), (batch, heads)]):
        k2, v2 = normal(batch, queries, width), normal(batch, queries, width)
        added = None if dims is None else normal(*dims, queries, queries + 5)
        yield Case(
            f"past one way {one_way} {dims}",
            "MultiHeadAttention",
            [q, k2, v2, bias2, None, added, *past],
            3,
            num_heads=heads,
            unidirectional=one_way,
        )
        yield Case(
            f"past and mask one way {one_way} {dims}",
            "MultiHeadAttention",
            [q, k2, v2, None, masks(batch, queries, queries + 5)["2-D"], added, *past],
            3,
            num_heads=heads,
            unidirectional=one_way,
        )
    yield Case("present", "MultiHeadAttention", [q, k, v, bias], 3, num_heads=heads, scale=0.2)
    blind = np.where(np.arange(queries)[:, None] % 2 == np.zeros(keys, int), 0, -np.inf).astype(np.float32)[None, None]
    yield Case("blind queries", "MultiHeadAttention", [q, k, v, None, None, blind], num_heads=heads)
    yield Case(
        "scores",
        "MultiHeadAttention",
        [q, k, v, None, masks(batch, queries, keys)["2-D"]],
        [1, 0, 0, 1],
        num_heads=heads,
    )
    yield Case(
        "keys by heads",
        "MultiHeadAttention",
        [q, normal(batch, heads, keys, 12), normal(batch, heads, keys, 12)],
        num_heads=heads,
    )
    yield Case(
        "step",
        "MultiHeadAttention",
        [
            normal(1, 1, 48),
            normal(1, 1, 48),
            normal(1, 1, 48),
            None,
            None,
            None,
            normal(1, 4, 7, 12),
            normal(1, 4, 7, 12),
        ],
        3,
        num_heads=4,
        unidirectional=1,
    )


def group_query_attention():
    heads, shared, size, length = 4, 2, 16, 5
    int32 = lambda *values: np.array(values, np.int32)
    fresh = lambda batch, count: [normal(batch, count, n * size) for n in (heads, shared, shared)]
    past = lambda batch, count: [normal(batch, shared, count, size) for _ in range(2)]
    angles = [normal(20, size // 2), normal(20, size // 2)]
    # By name: queries, keys and values, the past, keys of each sample less 1, and of all.
    prompt = [*fresh(2, length), None, None, int32(4, 4), int32(5)]
    forms = {
        "prompt": prompt,
        "uneven prompt": [*prompt[:5], int32(4, 2), int32(5)],
        "packed": [normal(2, length, (heads + 2 * shared) * size), None, None, *prompt[3:]],
        "prompt and buffer": [*prompt[:3], *past(2, 12), *prompt[5:]],
        "step": [*fresh(2, 1), *past(2, 6), int32(6, 6), int32(7)],
        "uneven step": [*fresh(2, 1), *past(2, 6), int32(6, 3), int32(7)],
        "packed step": [normal(2, 1, (heads + 2 * shared) * size), None, None, *past(2, 6), int32(6, 3), int32(7)],
        "step in a buffer": [*fresh(2, 1), *past(2, 12), int32(6, 3), int32(7)],
        "second prompt": [*fresh(1, length), *past(1, 6), int32(10), int32(11)],
    }
    options = [
        {},
        {"scale": 0.4, "softcap": 0.7},
        {"local_window_size": 1},
        {"local_window_size": 3, "smooth_softmax": 1},
        {"smooth_softmax": 1},
        {"causal": 0},
        {"do_rotary": 1},
        {"do_rotary": 1, "rotary_interleaved": 1},
    ]
    for name, inputs in forms.items():
        batch, queries, total = inputs[0].shape[0], inputs[0].shape[1], int(inputs[6][0])

        def case(what, more, **attributes):
            return Case(
                f"{name} {what}",
                "GroupQueryAttention",
                inputs + more,
                3,
                num_heads=heads,
                kv_num_heads=shared,
                **attributes,
            )

        for attributes in options:
            if name == "uneven prompt" and len(attributes) > 1:
                continue  # what steps in the padding see depends on ONNX Runtime's path
            yield case(f"{attributes}", angles if "do_rotary" in attributes else [], **attributes)
        positions = np.tile(np.arange(queries), (batch, 1)) + 3
        yield case("positions", angles + [positions], do_rotary=1)
        if queries == 1 or batch == 1:
            yield case("own positions", angles + [integers(0, 20, batch, queries)], do_rotary=1)
        for dims in ((1, 1), (batch, 1), (1, heads), (batch, heads)):
            yield case(f"bias {dims}", [None] * 3 + [normal(*dims, queries, total)], softcap=0.7)
        if name != "uneven prompt":
            yield case("sink and window", [None] * 4 + [normal(heads)], local_window_size=2)
        yield case("sink", [None] * 4 + [normal(heads)])
    long = [normal(2, length, n * 2 * size) for n in (heads, shared, shared)]
    yield Case(
        "half turned",
        "GroupQueryAttention",
        [*long, *prompt[3:], *angles],
        3,
        num_heads=heads,
        kv_num_heads=shared,
        do_rotary=1,
    )
    halves = [value if value is None or value.dtype == np.int32 else value.astype(np.float16) for value in prompt]
    yield Case("float16", "GroupQueryAttention", halves, 3, limit=2e-3, num_heads=heads, kv_num_heads=shared)


def bit_products():
    k, n = 72, 40
    for bits, block, form, with_bias, rows in itertools.product(
        [2, 4, 8], [16, 32], ["none", "packed", "floats"], [False, True], [1, 5]
    ):
        if bits == 8 and form == "floats":
            continue  # ONNX Runtime fails
        blocks = -(-k // block)
        zero_points = {
            "none": None,
            "packed": integers(0, 256, n, -(-blocks * bits // 8), dtype=np.uint8),
            "floats": RANDOM.uniform(0, 2**bits - 1, (n, blocks)).astype(np.float32),
        }[form]
        codes = integers(0, 256, n, blocks, block * bits // 8, dtype=np.uint8)
        inputs = [normal(2, rows, k), codes, normal(n, blocks), zero_points, None, normal(n) if with_bias else None]
        yield Case(
            f"{bits} bits, block {block}, zero points {form}, bias {with_bias}, {rows} rows",
            "MatMulNBits",
            inputs,
            constants=(1, 2, 3, 5),
            K=k,
            N=n,
            bits=bits,
            block_size=block,
            accuracy_level=1,
        )
    # With packed zero points ONNX Runtime's answers are wrong.
    for floats in (False, True):
        groups = integers(0, 3, 96, dtype=np.int32)
        zero_points = RANDOM.uniform(0, 15, (n, 3)).astype(np.float32) if floats else None
        codes = integers(0, 256, n, 3, 16, dtype=np.uint8)
        yield Case(
            f"groups, float zero points {floats}",
            "MatMulNBits",
            [normal(4, 96), codes, normal(n, 3), zero_points, groups],
            constants=(1, 2, 3, 4),
            K=96,
            N=n,
            bits=4,
            block_size=32,
        )


def rotary():
    for interleaved, positions in itertools.product([0, 1], [np.array([3], np.int64), integers(0, 20, 2, 5)]):
        angles = [normal(20, 6), normal(20, 6)]
        yield Case(
            f"3-D {interleaved} {positions.shape}",
            "RotaryEmbedding",
            [normal(2, 5, 48), positions, *angles],
            interleaved=interleaved,
        )
        yield Case(
            f"4-D {interleaved} {positions.shape}",
            "RotaryEmbedding",
            [normal(2, 4, 5, 12), positions, *angles],
            interleaved=interleaved,
        )
        yield Case(
            f"part {interleaved} {positions.shape}",
            "RotaryEmbedding",
            [normal(2, 5, 48), positions, normal(20, 4), normal(20, 4)],
            interleaved=interleaved,
            num_heads=4,
            rotary_embedding_dim=8,
        )
        yield Case(
            f"scale {interleaved} {positions.shape}",
            "RotaryEmbedding",
            [normal(2, 5, 48), positions, *angles],
            interleaved=interleaved,
            scale=2.0,
        )
    for interleaved in (0, 1):
        yield Case(
            f"opset 23 {interleaved}",
            "RotaryEmbedding",
            [normal(2, 4, 5, 12), normal(20, 6), normal(20, 6), integers(0, 20, 2, 5)],
            1,
            "",
            23,
            interleaved=interleaved,
        )


def onnx_attention():
    batch, queries, keys, heads, kv_heads = 2, 6, 9, 4, 2
    for opset, causal, softcap in itertools.product([23, 24], [0, 1], [0.0, 2.0]):
        common = dict(is_causal=causal, softcap=softcap)
        what = f"opset {opset} causal {causal} softcap {softcap}"
        flat = [
            normal(batch, queries, heads * 12),
            normal(batch, keys, kv_heads * 12),
            normal(batch, keys, kv_heads * 8),
        ]
        yield Case(f"3-D {what}", "Attention", flat, 1, "", opset, q_num_heads=heads, kv_num_heads=kv_heads, **common)
        by_heads = [
            normal(batch, heads, queries, 12),
            normal(batch, kv_heads, keys, 12),
            normal(batch, kv_heads, keys, 8),
        ]
        for mask in (
            normal(queries, keys),
            normal(batch, 1, queries, keys),
            normal(1, heads, queries, keys),
            np.maximum(integers(0, 2, batch, 1, queries, keys), np.arange(keys) == 0).astype(bool),
        ):
            yield Case(
                f"4-D {what} mask {mask.dtype} {mask.shape}", "Attention", [*by_heads, mask], 1, "", opset, **common
            )
        past = [normal(batch, kv_heads, 5, 12), normal(batch, kv_heads, 5, 8)]
        yield Case(
            f"past {what}",
            "Attention",
            [*by_heads, normal(queries, keys + 5), *past],
            3,
            "",
            opset,
            scale=0.3,
            **common,
        )
        blind = np.arange(queries)[:, None] % 2 == np.zeros(keys, int)
        yield Case(f"blind queries {what}", "Attention", [*by_heads, blind], 1, "", opset, **common)
    yield Case("lengths", "Attention", [*by_heads, None, None, None, np.array([4, 9], np.int64)], 1, "", 24)
    cache, update = normal(2, 3, 10, 4), normal(2, 3, 4, 4)
    yield Case("linear", "TensorScatter", [cache, update, np.array([1, 6], np.int64)], 1, "", 24, limit=0)
    yield Case(
        "circular", "TensorScatter", [cache, update, np.array([1, 8], np.int64)], 1, "", 24, limit=0, mode="circular"
    )
    yield Case("", "Swish", [4 * normal(3, 50)], 1, "", 24)
    yield Case("alpha", "Swish", [4 * normal(3, 50)], 1, "", 24, alpha=1.3)


def main():
    oracle = Oracle()
    largest, counts = {}, {}
    for case in itertools.chain(
        embeddings(), norms(), activations(), fused_attention(), multi_head_attention(), group_query_attention(), bit_products(), rotary(), onnx_attention()
    ):
        name = f"{case.domain or 'ai.onnx'} {case.op}"
        path = oracle.folder / "case.onnx"
        try:
            case.model(path)
            want = answers(session(path), case.feeds())
            got = oracle.outputs(path, case.feeds())
        except Exception as error:  # ours or ONNX Runtime's refusal is a failure of the case
            oracle.check(f"{name} {case.what}", False, str(error).strip()[-600:])
            continue
        for output, value in want.items():
            error = relative_rms(value, got[output])
            oracle.check(
                f"{name} {case.what} {output}", error <= case.limit, f"relative RMS {error:.2e} is above {case.limit}"
            )
            if case.limit <= LIMIT:
                largest[name] = max(largest.get(name, 0), error)
        counts[name] = counts.get(name, 0) + 1
    for name, count in counts.items():
        print(f"{name}: largest relative RMS of {count} cases {largest.get(name, 0):.1e}")
    oracle.finish()


main()
