"""Ops of tt-mlir's ttir and ttnn that nothing here lowers, each with its kind and reason.

They are read and printed, so that text in tt-mlir's words goes through `opscope opt`, and refused by name where they
would have to be computed. A row with a kernel, registered elsewhere, takes the place of one here.
"""

from __future__ import annotations

from opscope.compiler.ops.row import ANY, Group, Lowering, OpRow, register_all

_ATTENTION = "a form of attention over a cache that no kernel here computes in one op; the composed form runs"
_MOE = "routes tokens between experts on several chips by values known at run time"
_TRAINING = "a step of training in one op: its parts run, this compiler lacks the fused kernel"
_SHARDED = "the part of an op between chips that this compiler writes with collectives and the op on each chip"
_QUANT = "the door writes quantised tensors as integers with scales and zero points"
_MESH = "places a tensor on a mesh: inputs enter each chip's program as that chip's part"
_TRACE = "replays a recorded stream of commands: the simulator runs programs at once, without a command queue"
_D2M = "a kernel written in tt-mlir's D2M dialect, which this compiler does not read"
_MEMORY = "explicit memory: buffers are allocated by ttnn-to-flatbuffer"
_FUSED = "a fused op that this compiler writes as its parts"
_FILE = "reads or writes a file while the program runs"
_PREPARED = "this compiler's kernels take weights and biases as they are"
_SAMPLING = "draws tokens by the device's own random numbers, which no other device repeats"
_LANGUAGE = "a kernel in another language, known by a name that only tt-lang resolves"

TTIR: dict[Group, list[tuple[Lowering, str, str]]] = {
    "matmul": [
        ("notimpl", "chunked_scaled_dot_product_attention paged_flash_multi_latent_attention_decode", _ATTENTION),
        ("notimpl", "sdpa_fw sdpa_bw", _TRAINING),
        ("notimpl", "sparse_matmul topk_router_gpt moe_expert_token_remap moe_gpt moe_compute", _MOE),
        ("notimpl", "split_query_key_value_and_split_heads", _FUSED),
    ],
    "data_movement": [("notimpl", "rearrange", "a pattern in einops' notation; permute and reshape run")],
    "layout": [
        ("notimpl", "to_layout ttnn_metal_layout_cast", "layouts are chosen by ttir-to-ttnn"),
        ("notimpl", "alloc dealloc", _MEMORY),
    ],
    "norm": [("notimpl", "distributed_rms_norm distributed_layer_norm", _SHARDED), ("notimpl", "adamw", _TRAINING)],
    "pool": [
        ("notimpl", "max_pool2d_with_indices", "pooling here has one result; a window reduction by its body has two")
    ],
    "random": [("notimpl", "sampling", _SAMPLING)],
    "quant": [
        ("notimpl", "quantize dequantize quantize_unrolled dequantize_unrolled requantize requantize_unrolled", _QUANT)
    ],
    "collective": [
        ("notimpl", "all_reduce_async", "collectives here have no semaphores: all_reduce runs"),
        ("notimpl", "mesh_partition mesh_shard", _MESH),
        (
            "notimpl",
            "all_to_all_dispatch all_to_all_dispatch_metadata all_to_all_combine selective_reduce_combine",
            _MOE,
        ),
    ],
    "host": [("notimpl", "tt_lang_op", _LANGUAGE)],
}
"""Group -> kind, names and reason of ops of ttir; ttnn's of the same names share them."""
TTNN: dict[Group, list[tuple[Lowering, str, str]]] = {
    "layout": [
        ("notimpl", "to_tensor_spec", "this compiler writes to_layout, to_device and to_memory_config"),
        ("notimpl", "alloc empty", _MEMORY),
        ("pattern", "get_device", "the first op of each function that has a host's side"),
        ("notimpl", "copy assign write_tensor", _MEMORY),
        (
            "notimpl",
            "prepare_conv2d_bias prepare_conv_transpose2d_weights prepare_conv_transpose2d_bias "
            "prepare_moe_compute_w0_w1_weights prepare_moe_compute_w2_weights",
            _PREPARED,
        ),
    ],
    "eltwise": [
        ("notimpl", "pow_scalar clamp_scalar", "a constant is an operand here: pow_tensor and clamp_tensor run")
    ],
    "norm": [
        (
            "notimpl",
            "dit_rms_norm_unary_fused rms_norm_pre_all_gather layer_norm_pre_all_gather layer_norm_post_all_gather",
            _SHARDED,
        )
    ],
    "matmul": [
        ("notimpl", "rotary_embedding_llama", _FUSED),
        ("notimpl", "nlp_concat_heads nlp_concat_heads_decode nlp_create_qkv_heads_decode", _FUSED),
        ("notimpl", "flash_mla_prefill indexer_score_dsa", _ATTENTION),
    ],
    "host": [
        ("notimpl", "begin_trace_capture end_trace_capture execute_trace capture_or_execute_trace", _TRACE),
        ("notimpl", "generic d2m_subgraph", _D2M),
        ("notimpl", "dump_tensor load_tensor", _FILE),
    ],
    "collective": [
        ("notimpl", "point_to_point distribute_tensor aggregate_tensor", _MESH),
        (
            "notimpl",
            "create_global_semaphore reset_global_semaphore allocate_moe_compute_semaphore",
            "collectives here have no semaphores: chips meet at each one",
        ),
    ],
}
"""The same of ops that ttnn alone has."""

for _dialect, _groups in (("ttir", TTIR), ("ttnn", TTNN)):
    for _group, _rows in _groups.items():
        for _kind, _names, _reason in _rows:
            register_all(
                *(
                    OpRow(
                        "",
                        ttir=name if _dialect == "ttir" else "",
                        ttnn=name if _dialect == "ttnn" else "",
                        group=_group,
                        dtypes=ANY,
                        lowering=_kind,
                        reason=_reason,
                    )
                    for name in _names.split()
                )
            )
