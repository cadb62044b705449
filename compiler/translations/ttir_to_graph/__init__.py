"""TTIR -> the Buda graph: data movement onto edges, convolutions as a gather and a product, the rest op by op.

What TT-Buda leaves to the host stays there and comes in as an input: embeddings, integers, whatever is made of
parameters alone. Floats are held as Float16_b.
"""
