//! Autograd: the tape, the engine and hooks.
//!
//! A layer of dispatch that records a node for each op and, on `backward`, calls the ops' own gradient rules, which are made of
//! ops again. It therefore works on local, global and traced tensors alike and knows none of them. It names a few structural
//! ops only: addition, sums, reshapes, casts and strided views.

mod addresses;
mod anomaly;
mod destinations;
mod engine;
mod function;
mod gradients;
mod halves;
mod hooks;
mod layer;
mod left;
mod mode;
mod node;
mod running;
mod saved;
mod slot;
mod tensor_hooks;
mod view;

pub use anomaly::{
    AnomalyHooks, is_anomaly_check_nan_enabled, is_anomaly_enabled, set_anomaly_hooks, set_anomaly_mode,
};
pub use engine::{Root, backward, backward_from, fit, grad_from, grad_of, set_accumulate_rule, set_poll, sums_to};
pub use function::{custom_edge, custom_node, set_edge_rule};
pub use gradients::{freed, reopened};
pub use halves::{SecondHalf, first_half};
pub use hooks::{Hook, HookHandle, NodePostHook, NodePreHook, Payload, PostHook};
pub use layer::register;
pub use mode::{
    GradGuard, InferenceGuard, is_forward_mode, is_grad_enabled, is_inference_mode_enabled, set_forward_mode,
    set_grad_enabled, set_inference_mode,
};
pub use node::{Edge, Node};
pub use running::{backward_is_partial, backward_number, will_run};
pub use saved::{Kept, Pack, Unpack, pop_saved_hooks, push_saved_hooks, refuse_saved_hooks};
pub use slot::{
    accumulator, check_inference_write, detach, detach_, grad, is_leaf, output_nr, own_node, relinked, requires_grad,
    retains_grad, set_data, set_grad, set_requires_grad, swap_data,
};
pub use tensor_hooks::{leave_out_leaf_hooks, register_hook, register_post_accumulate_hook, remove_hook, retain_grad};
pub use view::{check_history, grad_fn, gradient_edge, mark_no_grad_view, set_view};
