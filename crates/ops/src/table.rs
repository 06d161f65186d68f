//! The table: every op, alphabetically; overloads of a name in the order they are tried.

use crate::*;
use oneflow_core::OpDef;

pub static TABLE: &[&OpDef] = &[
    &elementwise::add::OP,
    &view::as_strided::OP,
    &view::as_strided::SCATTER,
    &creation::contiguous::COPY_OP,
    &creation::contiguous::OP,
    &elementwise::erf::OP,
    &elementwise::exp::OP,
    &view::expand::OP,
    &elementwise::gelu::OP,
    &elementwise::gelu::BACKWARD,
    &nn::softmax::LOG,
    &matmul::matmul::OP,
    &elementwise::mul::OP,
    &view::permute::OP,
    &view::reshape::OP,
    &nn::softmax::OP,
    &nn::softmax::BACKWARD,
    &view::squeeze::OP,
    &view::squeeze::DIM,
    &elementwise::sub::OP,
    &reduce::sum::OP,
    &elementwise::tanh::OP,
    &creation::to::OP,
    &view::transpose::OP,
    &view::unsqueeze::OP,
    &view::view::OP,
    &creation::zeros::OP,
];
