//! Every kernel text for the dtypes the project promises, so that tests compile them without a GPU.

use crate::row::{RowKind, RowText, RowTypes, Share};
use crate::{
    attention, attention_cudnn, attention_mma, channel_norm, concat, conv, conv_mma, ctc, elementwise, fft, index,
    matmul, nn, norms, optimizer, pad, pool, random, reduce, resample, rnn, rows, solver, sort,
};
use oneflow_base::{DType, Result};
use oneflow_ep::cuda::Text;
use oneflow_kernels_prim::{
    Activation, BagMode, Expr, PadMode, RandomByKind, ResampleMode, RnnMode, Rule, ScatterKind,
};
use std::collections::HashSet;

const FLOATS: [DType; 3] = [DType::F32, DType::F64, DType::BF16];
const REAL: [DType; 5] = [DType::F32, DType::F64, DType::BF16, DType::I64, DType::Bool];

/// The texts of one expression: each compute dtype, and bfloat16 storage.
pub fn expr_sources(expr: &Expr) -> Result<Vec<Text>> {
    let mut all = Vec::new();
    for (compute, storage) in
        [(DType::F32, DType::F32), (DType::F32, DType::BF16), (DType::F64, DType::F64), (DType::I64, DType::I64)]
    {
        if expr.computes_in(compute) {
            all.push(elementwise::expr_text(expr, compute, &vec![storage; expr.arity], storage)?);
        }
    }
    Ok(all)
}

/// Every template in every dtype, and every expression that has been registered.
pub fn all_sources() -> Result<Vec<Text>> {
    let mut all = vec![index::keys_text(), sort::rows_text()];
    all.extend((0..3).map(sort::radix_text));
    all.extend((0..4).map(solver::text));
    all.extend([1, 2, 4, 8, 16].map(concat::text));
    for from in REAL {
        for to in REAL {
            all.push(elementwise::copy_text(from, to)?);
        }
        for number in [DType::F64, DType::I64] {
            all.push(elementwise::fill_text(from, number)?);
        }
        all.push(elementwise::triangle_text(from));
        all.push(reduce::text(reduce::COUNT, from, DType::I64, DType::I64)?);
        // Any and all.
        all.push(reduce::text(5, from, DType::I64, DType::Bool)?);
        all.push(reduce::text(6, from, DType::I64, DType::Bool)?);
        let (sum, acc) = if from == DType::Bool { (DType::I64, DType::I64) } else { (from, from.compute()) };
        for kind in 0..5 {
            all.push(reduce::text(kind, from, acc, sum)?);
        }
        all.push(reduce::text(0, acc, acc, from)?);
        for kind in 0..4 {
            all.push(reduce::scan_text(kind, from, sum)?);
        }
        for is_max in [false, true] {
            all.push(reduce::arg_text(from, is_max)?);
        }
        for part in [0, 1, 2, 6] {
            all.push(index::text(part, from, DType::I32)?);
        }
        for part in [0, 1, 2, 3, 4, 6, 7] {
            all.push(index::text(part, from, DType::I64)?);
        }
        for kind in [ScatterKind::Set, ScatterKind::Add, ScatterKind::Mul, ScatterKind::Max, ScatterKind::Min] {
            all.push(index::updates_text(kind, from, from)?);
        }
        all.extend([sort::text(0, from)?, sort::text(2, from)?, sort::nonzero_text(0, from)?]);
        all.push(sort::nonzero_text(1, from)?);
        all.push(rows::search_text(from, DType::I64)?);
        for kind in [RandomByKind::Poisson, RandomByKind::Binomial, RandomByKind::Gamma] {
            all.push(rows::random_by_text(kind, from)?);
        }
        all.push(nn::embedding_text(from, DType::I64)?);
        all.push(random::text(2, from)?);
        all.push(random::text(3, from)?);
        all.push(matmul::tiled_text(from)?);
        all.push(matmul::epilogue_text(if from == DType::Bool { DType::I64 } else { from }, Activation::None)?);
    }
    for part in 0..3 {
        all.extend([ctc::text(part, DType::F32)?, ctc::text(part, DType::F64)?]);
    }
    all.extend([fft::scale_text(DType::F32)?, fft::scale_text(DType::F64)?]);
    for d in FLOATS {
        for flag in [false, true] {
            all.extend([nn::softmax_text(d, true, flag)?, nn::softmax_text(d, false, flag)?]);
            for part in 0..3 {
                all.push(nn::norm_text(part, RowTypes::all(d), flag)?);
            }
            all.push(nn::loss_text(flag as u8, d, d, d)?);
        }
        all.extend([nn::loss_text(1, d, d, d.compute())?, nn::loss_text(2, d, d, d)?]);
        for rule in Rule::all() {
            all.extend([optimizer::text(rule, d, d, d)?, optimizer::text(rule, d, d.compute(), d)?]);
        }
        all.push(optimizer::unscale_text(d, DType::F32)?);
        for kind in 0..3 {
            all.push(norms::text(kind, d)?);
        }
        for part in [0, 1, 4, 5] {
            all.push(random::text(part, d)?);
        }
        use Activation::{Gelu, GeluTanh, Hardswish, Relu, Relu6, Silu};
        for act in [Relu, Gelu, GeluTanh, Silu, Hardswish, Relu6] {
            all.push(matmul::epilogue_text(d, act)?);
        }
    }
    for d in FLOATS {
        for part in 0..6 {
            for rows in [16, 64] {
                all.push(conv::text(part, rows, d)?);
            }
            all.push(channel_norm::text(part, d, d)?);
        }
        all.push(channel_norm::text(6, d, d)?);
        all.push(reduce::logcumsumexp_text(d)?);
        for mode in [BagMode::Sum, BagMode::Mean, BagMode::Max] {
            all.push(rows::bag_text(mode, d, DType::I64, DType::I32)?);
        }
        for transposed in [false, true] {
            all.push(resample::text(transposed, d, d)?);
            all.push(resample::text(transposed, d, d.compute())?);
        }
        for part in 0..4 {
            all.push(pool::text(part, d)?);
            for (mask, tiles) in [(DType::Bool, [4, 4]), (DType::F32, [8, 8]), (d, [1, 16])] {
                all.push(attention::text(part, d, mask, tiles)?);
            }
        }
    }
    let mixed = |element, weight, grad| RowTypes { element, weight, grad };
    for dtypes in [
        RowTypes::all(DType::F32),
        RowTypes::all(DType::BF16),
        RowTypes::all(DType::F16),
        RowTypes::all(DType::F64),
        mixed(DType::BF16, DType::F32, DType::BF16),
        mixed(DType::F32, DType::F32, DType::BF16),
        mixed(DType::F32, DType::F32, DType::F16),
    ] {
        let is_narrow = dtypes.grad != dtypes.element;
        for kind in [RowKind::Softmax, RowKind::SoftmaxBackward, RowKind::Norm, RowKind::NormBackward] {
            let backward = matches!(kind, RowKind::NormBackward);
            for (variant, across, chunks) in
                [(false, 8, 1), (true, 32, 2), (false, 64, 3), (false, 256, 2), (false, 1024, 2)]
            {
                for params in [false, true] {
                    let share = Share { across, chunks };
                    if (backward || !is_narrow) && (!params || backward && across <= 256) {
                        all.push(RowText { kind, variant, params, dtypes, share }.text()?);
                    }
                }
            }
        }
    }
    for part in [1, 2] {
        all.push(nn::norm_text(part, mixed(DType::F32, DType::F32, DType::BF16), false)?);
    }
    for (d, mask, width) in [
        (DType::BF16, DType::Bool, 64),
        (DType::BF16, DType::Bool, 128),
        (DType::BF16, DType::F32, 64),
        (DType::F16, DType::F16, 96),
        (DType::F16, DType::Bool, 32),
    ] {
        for part in 0..4 {
            all.push(attention_mma::text(part, d, mask, width)?);
        }
    }
    for (d, mask) in [(DType::BF16, DType::Bool), (DType::BF16, DType::F32), (DType::F16, DType::F16)] {
        for part in 0..3 {
            all.push(attention_cudnn::text(part, d, mask)?);
        }
    }
    for part in 0..3 {
        all.extend([conv_mma::text(part, DType::BF16)?, conv_mma::text(part, DType::F16)?]);
    }
    for mode in (0..).map_while(RnnMode::from_u64) {
        for part in 0..3 {
            all.extend([rnn::text(part, mode, DType::F32)?, rnn::text(part, mode, DType::F64)?]);
        }
    }
    for mode in (0..).map_while(PadMode::from_u64) {
        all.extend([1, 2, 4, 8, 16].map(|bytes| pad::text(mode, bytes)));
        for dtype in if matches!(mode, PadMode::Constant | PadMode::Roll) { &[][..] } else { &FLOATS } {
            all.push(pad::backward_text(mode, *dtype)?);
        }
    }
    for mode in (0..).map_while(ResampleMode::from_u64) {
        all.extend([resample::table_text(mode, DType::F32)?, resample::table_text(mode, DType::F64)?]);
    }
    for i in [DType::I32, DType::I64] {
        all.push(nn::embedding_keys_text(i)?);
    }
    // Registered expressions have ids without gaps.
    for expr in (0..).map_while(Expr::by_id) {
        all.extend(expr_sources(expr)?);
    }
    let mut seen = HashSet::new();
    all.retain(|t| seen.insert(t.source.clone()));
    Ok(all)
}
