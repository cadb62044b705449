"""Sequence to sequence by LSTMs (Sutskever et al. 2014) in Flax linen, reduced: width 128; its loops stay loops."""

from __future__ import annotations

from opscope.models.arguments import ArgSpec, Built
from opscope.models.registry import model

VOCABULARY, WIDTH, SOURCE, TARGET = 4000, 128, 20, 12


@model(name="seq2seq_flax", family="recurrent", framework="flax", size="reduced")
def build(dtype: str) -> Built:
    """The next word's logits at every place of the answer, (2, 12, 4000)."""
    import flax.linen as nn
    import jax

    from opscope.models.frontends.jax_tree import of_tree

    class Seq2Seq(nn.Module):
        """Encoder and decoder; the decoder starts in the encoder's last state."""

        @nn.compact
        def __call__(self, question: jax.Array, answer: jax.Array) -> jax.Array:
            embed = nn.Embed(VOCABULARY, WIDTH)
            state, _ = nn.RNN(nn.OptimizedLSTMCell(WIDTH), return_carry=True)(embed(question))
            decoded = nn.RNN(nn.OptimizedLSTMCell(WIDTH))(embed(answer), initial_carry=state)
            return nn.Dense(VOCABULARY)(decoded)

    specs = (
        ArgSpec("question", (2, SOURCE), "int32", f"int:0:{VOCABULARY}", "input"),
        ArgSpec("answer", (2, TARGET), "int32", f"int:0:{VOCABULARY}", "input"),
    )
    network = Seq2Seq()
    structs = [jax.ShapeDtypeStruct(spec.shape, spec.dtype) for spec in specs]
    variables = jax.eval_shape(network.init, jax.random.key(0), *structs)
    return of_tree(variables, lambda tree, *words: network.apply(tree, *words), specs, dtype=dtype)
