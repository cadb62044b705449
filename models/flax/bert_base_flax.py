"""BERT-base (Devlin et al. 2018) in Flax linen, sequence 128, by linen's own attention; without segment embeddings."""

from __future__ import annotations

from opscope.models.arguments import ArgSpec, Built
from opscope.models.registry import model

VOCABULARY, WIDTH, LAYERS, HEADS, INNER, SEQUENCE = 30522, 768, 12, 12, 3072, 128


@model(name="bert_base_flax", family="encoder", framework="flax")
def build(dtype: str) -> Built:
    """The encoder of one sequence; returns the last hidden state and the pooled output."""
    import flax.linen as nn
    import jax
    import jax.numpy as jnp

    from opscope.models.frontends.jax_tree import of_tree

    class Layer(nn.Module):
        """Attention and perceptron, each added and normalised."""

        @nn.compact
        def __call__(self, x: jax.Array, mask: jax.Array) -> jax.Array:
            attended = nn.MultiHeadDotProductAttention(HEADS)(x, x, mask=mask)
            x = nn.LayerNorm(epsilon=1e-12)(x + attended)
            inner = nn.Dense(WIDTH)(nn.gelu(nn.Dense(INNER)(x), approximate=False))
            return nn.LayerNorm(epsilon=1e-12)(x + inner)

    class Bert(nn.Module):
        """Embeddings, twelve layers, pooler."""

        @nn.compact
        def __call__(self, ids: jax.Array, mask: jax.Array) -> tuple[jax.Array, jax.Array]:
            x = nn.Embed(VOCABULARY, WIDTH)(ids) + nn.Embed(512, WIDTH)(jnp.arange(SEQUENCE)[None])
            x = nn.LayerNorm(epsilon=1e-12)(x)
            whole = nn.make_attention_mask(mask, mask)
            for _ in range(LAYERS):
                x = Layer()(x, whole)
            return x, jnp.tanh(nn.Dense(WIDTH)(x[:, 0]))

    specs = (
        ArgSpec("input_ids", (1, SEQUENCE), "int32", f"int:0:{VOCABULARY}", "input"),
        ArgSpec("attention_mask", (1, SEQUENCE), "int32", "ones", "input"),
    )
    bert = Bert()
    structs = [jax.ShapeDtypeStruct(spec.shape, spec.dtype) for spec in specs]
    variables = jax.eval_shape(bert.init, jax.random.key(0), *structs)
    return of_tree(variables, lambda tree, ids, mask: bert.apply(tree, ids, mask), specs, dtype=dtype)
