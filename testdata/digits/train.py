"""Trains the two digit nets, exports them and writes the held-out samples. Not run by any test.

    pip install jax==0.10.2 scikit-learn==1.9.1 onnx==1.22.0 onnxruntime==1.30.0
    python train.py

Deterministic for one machine and these versions; another machine may round differently and train slightly other nets.
"""
import pathlib
import sys

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime
from sklearn.datasets import load_digits

import export
import nets

HERE = pathlib.Path(__file__).resolve().parent
HELD_OUT = 400


def load():
    digits = load_digits()
    images = (digits.images / 16).astype(np.float32)[:, None]
    order = np.random.default_rng(2024).permutation(len(images))
    images, labels = images[order], digits.target[order].astype(np.int64)
    return (images[HELD_OUT:], labels[HELD_OUT:]), (images[:HELD_OUT], labels[:HELD_OUT])


def augment(random, images):
    """Shifts by up to one pixel and a little noise."""
    out = np.zeros_like(images)
    for i, image in enumerate(images):
        dy, dx = random.integers(-1, 2, 2) if random.random() < 0.5 else (0, 0)
        rolled = np.roll(image, (dy, dx), (1, 2))
        if dy: rolled[:, 0 if dy > 0 else -1, :] = 0
        if dx: rolled[:, :, 0 if dx > 0 else -1] = 0
        out[i] = rolled
    return np.clip(out + random.standard_normal(out.shape, dtype=np.float32) * 0.03, 0, 1).astype(np.float32)


def train(apply, p, state, samples, epochs, rate, decay):
    """AdamW with a cosine schedule; returns the average of the weights over the last steps."""
    images, labels = samples
    batch = 64
    total = epochs * (len(images) // batch)

    def loss(p, state, x, y, key):
        logits, state = apply(p, state, x, key)
        target = jax.nn.one_hot(y, 10) * 0.95 + 0.005
        return -(target * jax.nn.log_softmax(logits)).sum(-1).mean(), state

    @jax.jit
    def step(p, m, v, average, state, x, y, key, t):
        (value, state), g = jax.value_and_grad(loss, has_aux=True)(p, state, x, y, key)
        lr = rate * jnp.minimum(1.0, t / 100) * 0.5 * (1 + jnp.cos(jnp.pi * t / total))
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
        v = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, v, g)
        p = jax.tree.map(lambda p, m, v: p - lr * (m / (1 - 0.9 ** t) / (jnp.sqrt(v / (1 - 0.99 ** t)) + 1e-8) + decay * p), p, m, v)
        average = jax.tree.map(lambda a, p: 0.99 * a + 0.01 * p, average, p)
        return p, m, v, average, state, value

    random = np.random.default_rng(7)
    zeros = jax.tree.map(jnp.zeros_like, p)
    m, v, average, t = zeros, zeros, p, 0
    for epoch in range(epochs):
        order = random.permutation(len(images))
        for i in range(len(images) // batch):
            pick = order[i * batch:(i + 1) * batch]
            t += 1
            p, m, v, average, state, value = step(p, m, v, average, state, augment(random, images[pick]), labels[pick],
                                                  jax.random.key(t), jnp.float32(t))
        if epoch % 10 == 9:
            print(f"  epoch {epoch + 1}: loss {float(value):.3f}", file=sys.stderr)
    return jax.tree.map(np.asarray, average), jax.tree.map(np.asarray, state)


def save(name, model, held_out):
    path = HERE / f"{name}.onnx"
    onnx.save(model, path)
    images, labels = held_out
    logits = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"input": images})[0]
    accuracy = (logits.argmax(-1) == labels).mean()
    print(f"{name}: {accuracy:.2%} of {len(labels)} held-out samples, {path.stat().st_size:,} bytes")
    assert accuracy >= 0.97


def main():
    training, held_out = load()
    np.savez(HERE / "heldout.npz", input=held_out[0])
    np.save(HERE / "labels.npy", held_out[1])
    p, state = train(nets.cnn_apply, *nets.cnn_init(1), training, epochs=60, rate=3e-3, decay=1e-2)
    save("digits_cnn", export.export_cnn(p, state), held_out)
    p, _ = train(nets.vit_apply, *nets.vit_init(2), training, epochs=120, rate=1e-3, decay=5e-2)
    save("digits_vit", export.export_vit(p), held_out)


main()
