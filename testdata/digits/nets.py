"""The two digit nets as JAX functions of a dict of parameters whose keys are the names the exporter writes."""
import jax
import jax.numpy as jnp
import numpy as np

WIDTH, HEADS, BLOCKS, HIDDEN, TOKENS, PATCH = 128, 4, 2, 512, 16, 4
CHANNELS = (1, 32, 48, 64)
EPSILON = 1e-5


def normal(random, *shape, scale):
    return jnp.asarray(random.standard_normal(shape) * scale, jnp.float32)


def vit_init(seed):
    random = np.random.default_rng(seed)
    dense = lambda k, n: normal(random, k, n, scale=(1.0 / k) ** 0.5)
    p = {"patch_embed.weight": dense(PATCH, WIDTH), "patch_embed.bias": jnp.zeros(WIDTH),
         "pos_embed": normal(random, 1, TOKENS, WIDTH, scale=0.02)}
    for i in range(BLOCKS):
        b = f"blocks.{i}."
        for norm in ("norm1", "norm2"):
            p |= {f"{b}{norm}.weight": jnp.ones(WIDTH), f"{b}{norm}.bias": jnp.zeros(WIDTH)}
        for name, k, n in (("attn.qkv", WIDTH, 3 * WIDTH), ("attn.proj", WIDTH, WIDTH), ("mlp.fc1", WIDTH, HIDDEN),
                           ("mlp.fc2", HIDDEN, WIDTH)):
            p |= {f"{b}{name}.weight": dense(k, n), f"{b}{name}.bias": jnp.zeros(n)}
    p |= {"norm.weight": jnp.ones(WIDTH), "norm.bias": jnp.zeros(WIDTH), "head.weight": dense(WIDTH, 10),
          "head.bias": jnp.zeros(10)}
    return p, {}


def layer_norm(p, name, x):
    d = x - x.mean(-1, keepdims=True)
    return d / jnp.sqrt((d * d).mean(-1, keepdims=True) + EPSILON) * p[name + ".weight"] + p[name + ".bias"]


def vit_apply(p, state, x, key):
    """Logits [B,10] of x [B,1,8,8]; a key means training, with dropout."""
    def dropout(v, salt):
        if key is None:
            return v
        keep = jax.random.bernoulli(jax.random.fold_in(key, salt), 0.9, v.shape)
        return jnp.where(keep, v / 0.9, 0)

    batch = x.shape[0]
    x = x.reshape(batch, 4, 2, 4, 2).transpose(0, 1, 3, 2, 4).reshape(batch, TOKENS, PATCH)
    x = x @ p["patch_embed.weight"] + p["patch_embed.bias"] + p["pos_embed"]
    for i in range(BLOCKS):
        b = f"blocks.{i}."
        h = layer_norm(p, b + "norm1", x) @ p[b + "attn.qkv.weight"] + p[b + "attn.qkv.bias"]
        q, k, v = h.reshape(batch, TOKENS, 3, HEADS, WIDTH // HEADS).transpose(2, 0, 3, 1, 4)
        a = jax.nn.softmax(q @ k.transpose(0, 1, 3, 2) * (WIDTH // HEADS) ** -0.5, -1)
        a = (a @ v).transpose(0, 2, 1, 3).reshape(batch, TOKENS, WIDTH)
        x = x + dropout(a @ p[b + "attn.proj.weight"] + p[b + "attn.proj.bias"], 2 * i)
        h = jax.nn.gelu(layer_norm(p, b + "norm2", x) @ p[b + "mlp.fc1.weight"] + p[b + "mlp.fc1.bias"], approximate=False)
        x = x + dropout(h @ p[b + "mlp.fc2.weight"] + p[b + "mlp.fc2.bias"], 2 * i + 1)
    return layer_norm(p, "norm", x).mean(1) @ p["head.weight"] + p["head.bias"], state


def cnn_init(seed):
    random = np.random.default_rng(seed)
    p, state = {}, {}
    for i in range(3):
        c, m = CHANNELS[i], CHANNELS[i + 1]
        p |= {f"conv{i}.weight": normal(random, m, c, 3, 3, scale=(2.0 / (9 * c)) ** 0.5),
              f"bn{i}.weight": jnp.ones(m), f"bn{i}.bias": jnp.zeros(m)}
        state |= {f"bn{i}.running_mean": jnp.zeros(m), f"bn{i}.running_var": jnp.ones(m)}
    p |= {"fc.weight": normal(random, 10, CHANNELS[3], scale=CHANNELS[3] ** -0.5), "fc.bias": jnp.zeros(10)}
    return p, state


def cnn_apply(p, state, x, key):
    """Logits [B,10] of x [B,1,8,8] and the moved running statistics; a key means training."""
    new = dict(state)
    for i in range(3):
        x = jax.lax.conv_general_dilated(x, p[f"conv{i}.weight"], (1, 1), "SAME", dimension_numbers=("NCHW", "OIHW", "NCHW"))
        mean, var = state[f"bn{i}.running_mean"], state[f"bn{i}.running_var"]
        if key is not None:
            mean, var = x.mean((0, 2, 3)), x.var((0, 2, 3))
            new[f"bn{i}.running_mean"] = 0.95 * state[f"bn{i}.running_mean"] + 0.05 * mean
            new[f"bn{i}.running_var"] = 0.95 * state[f"bn{i}.running_var"] + 0.05 * var
        shape = (1, -1, 1, 1)
        x = (x - mean.reshape(shape)) / jnp.sqrt(var.reshape(shape) + EPSILON)
        x = jax.nn.relu(x * p[f"bn{i}.weight"].reshape(shape) + p[f"bn{i}.bias"].reshape(shape))
        if i == 1:
            x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
    return x.mean((2, 3)) @ p["fc.weight"].T + p["fc.bias"], new
