"""Translates TTIR to the Buda graph: moves become TMs on edges, convolutions a gather and a product, the rest op by op.

As in TT-Buda, embeddings, integers and everything computed from parameters alone stay on the host and come in as
inputs. Floats are held as Float16_b.
"""
