//! An op stands in a file that is named after it, so that a name known from Python finds its file.
//!
//! `gelu_backward` and `native_gelu` stand in `gelu.rs` too: a file holds the ops whose names contain its own, word by
//! word. Ops of one formula may share a file; those files are listed here with what they have in common.

use crate::codegen::Op;
use std::collections::BTreeMap;

const OPS: &str = "crate::";

/// Files of several names: the module below `crate::`, and what its ops share.
const FAMILIES: &[(&str, &str)] = &[
    ("conv::conv_nd", "one to three dimensions"),
    ("conv::conv_transpose_nd", "one to three dimensions"),
    ("conv::native_conv", "the convolution and its gradients, each the others' gradients"),
    ("conv::pooling", "one to three dimensions, maxima and means"),
    ("creation::tril_indices", "lower and upper triangles"),
    ("elementwise::addcmul", "product and quotient"),
    ("elementwise::bitwise_left_shift", "left and right"),
    ("elementwise::clamp_min", "lower and upper bound"),
    ("elementwise::deg2rad", "both directions"),
    ("elementwise::elu", "one formula with fixed and with given factors"),
    ("elementwise::fmax", "greatest and least"),
    ("elementwise::gcd", "divisor and multiple"),
    ("elementwise::i0", "plain and scaled"),
    ("elementwise::i1", "plain and scaled"),
    ("elementwise::isposinf", "positive and negative"),
    ("elementwise::logaddexp", "bases e and two"),
    ("elementwise::ndtr", "the normal distribution and its inverse"),
    ("elementwise::real", "real and imaginary parts"),
    ("elementwise::shrink", "hard and soft, one backward"),
    ("elementwise::trig", "trigonometry: circular and hyperbolic functions and their inverses"),
    ("elementwise::view_as_real", "both directions"),
    ("fft::transform", "transforms between real and complex numbers"),
    ("index::isin", "the public op and the search it is made of"),
    ("index::scatter_reduce", "the public op and the primitive it is made of"),
    ("index::tril", "lower and upper triangles"),
    ("index::where_places", "the overload of `where` that finds places"),
    ("linalg::cholesky_solve", "solutions and inverses from one factor"),
    ("linalg::qr", "the factorisation and the two steps it is made of"),
    ("linalg::slogdet", "determinants"),
    ("nn::loss::binary_cross_entropy", "the public ops and the primitives they are made of"),
    ("nn::loss::mse_loss", "the public op and the primitive it is made of"),
    ("nn::loss::smooth_l1_loss", "two public ops of one primitive"),
    ("optim::update", "the rules of fused updates"),
    ("random::standard_gamma", "the public op and its kernel in float64"),
    ("reduce::amax", "greatest and least"),
    ("reduce::any", "any and all"),
    ("reduce::argmax", "greatest and least"),
    ("reduce::cummax", "greatest and least"),
    ("reduce::max", "greatest and least"),
    ("reduce::median", "with and without NaN"),
    ("reduce::quantile", "with and without NaN"),
    ("reduce::trapezoid", "two names, and the running area"),
    ("reduce::var", "variance and its root"),
    ("reduce::var_mean", "variance and its root"),
    ("view::concat", "two names of `cat`"),
    ("view::flip", "all, left and right, up and down"),
    ("view::movedim", "two names"),
    ("view::swapaxes", "two names"),
    ("view::view_copies", "views as copies"),
    ("view::vstack", "two names"),
];

pub fn check(ops: &[Op]) -> Vec<String> {
    check_with(ops, FAMILIES)
}

fn check_with(ops: &[Op], families: &[(&str, &str)]) -> Vec<String> {
    let mut strangers: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for op in ops {
        let module = module_of(op);
        let names = strangers.entry(module).or_default();
        if !belongs(&op.schema.name, module) {
            names.push(&op.schema.name);
        }
    }
    let is_family = |module: &str| families.iter().any(|(family, _)| *family == module);
    let mut faults = Vec::new();
    for (module, names) in &strangers {
        let path = format!("crates/ops/src/{}.rs:1", module.replace("::", "/"));
        match (names.is_empty(), is_family(module)) {
            (false, false) => faults.push(format!(
                "{path}: holds `{}`; an op stands in a file named after it (families: xtask/src/tidy/op_files.rs)",
                names.join("`, `")
            )),
            (true, true) => faults.push(format!("{path}: is no family: all its ops are named after the file")),
            _ => {}
        }
    }
    let gone = families.iter().filter(|(family, _)| !strangers.contains_key(family));
    faults.extend(gone.map(|(family, _)| format!("crates/ops/src: there is no family `{family}`")));
    faults
}

/// `view::cat` of `crate::view::cat::OP`.
fn module_of(op: &Op) -> &str {
    let path = op.path.strip_prefix(OPS).unwrap_or(&op.path);
    path.rsplit_once("::").map_or(path, |(module, _)| module)
}

/// Whether the words of the file's name stand in the op's, in their order and next to each other.
fn belongs(op: &str, module: &str) -> bool {
    let file = module.rsplit("::").next().unwrap_or(module).trim_end_matches('_');
    format!("_{op}_").contains(&format!("_{file}_"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codegen;
    use crate::tree::Source;

    fn n_faults(file: &str, names: &[&str], families: &[(&str, &str)]) -> usize {
        let define = |(i, name): (usize, &&str)| {
            format!("pub static OP{i}: OpDef = OpDef {{ sig: Sig::parse(\"{name}(Tensor input) -> Tensor\") }};\n")
        };
        let text: String = names.iter().enumerate().map(define).collect();
        check_with(&codegen::ops(&[Source::new(&format!("crates/ops/src/{file}.rs"), &text)]), families).len()
    }

    #[test]
    fn planted_strangers_are_found() {
        assert_eq!(n_faults("unary/pairs", &["hypot"], &[]), 1);
        assert_eq!(n_faults("unary/gelu", &["gelu", "selu"], &[]), 1);
        assert_eq!(n_faults("unary/elu", &["selu"], &[]), 1);
        assert_eq!(n_faults("unary/gelu", &["gelu"], &[("unary::gelu", "")]), 1);
        assert_eq!(n_faults("unary/gelu", &["gelu"], &[("unary::gone", "")]), 1);
    }

    #[test]
    fn names_and_families_are_fine() {
        assert_eq!(n_faults("unary/gelu", &["gelu", "gelu_backward", "native_gelu", "gelu.out"], &[]), 0);
        assert_eq!(n_faults("unary/where_", &["where"], &[]), 0);
        assert_eq!(n_faults("resample/mod", &["resample", "resample_backward"], &[]), 0);
        assert_eq!(n_faults("unary/trig", &["sin", "cos"], &[("unary::trig", "sines")]), 0);
    }
}
