"""Is this result right, and by how much? The verdict of a run as a call, for arrays that anyone has computed.

Imports neither JAX nor a compiler; StableHLO texts and cards load them where they are judged.
"""
