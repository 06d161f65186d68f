//! `log_sigmoid`: `log(1 / (1 + exp(-x)))`.

use super::unary;
use crate::named::log_sigmoid;
use crate::prelude::*;

static LOG_SIGMOID_EXPR: Expr = expr!(float "log_sigmoid", |x| {
    x.minimum(L::splat(0.0)) - (-x.abs()).exp().log1p()
});

pub static OP: OpDef = OpDef {
    sig: Sig::parse("log_sigmoid(Tensor input) -> Tensor"),
    doc: "`log(1 / (1 + exp(-x)))`.

Example::

    >>> oneflow.nn.functional.logsigmoid(oneflow.tensor([0.]))
    tensor([-0.6931])",
    infer: unary::floating,
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &LOG_SIGMOID_EXPR)),
    grad: Grad::Rule {
        save: &[Save::of(log_sigmoid::INPUT, &[log_sigmoid::INPUT])],
        fix: Fix::None,
        f: |c, out| out.set(log_sigmoid::INPUT, || c.g()?.mul(&c.x(log_sigmoid::INPUT)?.neg()?.sigmoid()?)),
    },
    faces: Faces::NN.or(Faces::OUT),
    ..unary::FLOAT
};
