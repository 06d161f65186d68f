//! Autograd: the tape, the engine and hooks.
//!
//! A layer of dispatch that records a node for each op and, on `backward`, calls the ops' own gradient rules, which are made of
//! ops again. It therefore works on local, global and traced tensors alike and knows none of them. It names a few structural
//! ops only: addition, sums, reshapes, casts and strided views.

mod engine;
mod function;
mod hooks;
mod layer;
mod mode;
mod node;
mod slot;
mod view;

pub use engine::set_accumulate_rule;
pub use engine::{backward, grad_of};
pub use function::{custom_node, relinked};
pub use hooks::{Hook, HookHandle, PostHook, register_hook, register_post_accumulate_hook, remove_hook, retain_grad};
pub use layer::register;
pub use mode::{
    GradGuard, InferenceGuard, is_grad_enabled, is_inference_mode_enabled, set_grad_enabled, set_inference_mode,
};
pub use node::{Edge, Node};
pub use slot::{
    accumulator, detach, detach_, grad, grad_fn, is_leaf, output_nr, requires_grad, retains_grad, set_data, set_grad,
    set_requires_grad,
};
