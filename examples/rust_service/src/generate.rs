//! Text from a program that predicts the next byte: tokens (batch, time) and the place of each row's last byte (batch) in,
//! logits of the byte that follows (batch, 256) out.
//!
//! Every byte of every text is a row of its own, so texts that are written at the same time share their runs, and a text that
//! begins or ends in between disturbs no other.

use crate::batch::Batcher;
use crate::failure::Failure;
use crate::value::Row;
use axum::http::StatusCode;
use oneflow_runtime::{DType, Plan};

/// The longest text that is written in answer to one request.
const MAX_BYTES: u64 = 4096;

pub struct Wish {
    pub prompt: String,
    pub bytes: u64,
    /// Zero takes the likeliest byte.
    pub temperature: f64,
    pub seed: u64,
}

/// The time that the program looks back, if it is one that predicts bytes.
fn context(plan: &Plan) -> Option<usize> {
    let [tokens, last] = plan.inputs.as_slice() else { return None };
    let [logits] = plan.outputs.as_slice() else { return None };
    let fits = tokens.meta.dtype == DType::I64
        && last.meta.dtype == DType::I64
        && logits.operand.dtype == DType::F32
        && last.meta.sizes.len() == 1
        && logits.operand.sizes.len() == 2
        && logits.operand.sizes[1] == 256;
    match tokens.meta.sizes.as_slice() {
        [_, time] if fits && *time > 0 => Some(*time as usize),
        _ => None,
    }
}

/// Continues a prompt.
pub async fn generate(batcher: &Batcher, wish: &Wish) -> Result<Vec<u8>, Failure> {
    let time = context(batcher.plan()).ok_or_else(|| {
        Failure::wrong(format!("program {:?} does not predict bytes: POST /run instead", batcher.plan().name))
    })?;
    if wish.prompt.is_empty() || wish.bytes > MAX_BYTES || !(wish.temperature >= 0.0 && wish.temperature.is_finite()) {
        return Err(Failure::wrong(format!(
            "expected a prompt, at most {MAX_BYTES} bytes and a temperature of at least zero"
        )));
    }
    let mut text = wish.prompt.clone().into_bytes();
    let mut random = wish.seed;
    for _ in 0..wish.bytes {
        let seen = &text[text.len().saturating_sub(time)..];
        let mut tokens: Vec<i64> = seen.iter().map(|b| *b as i64).collect();
        let last = tokens.len() as i64 - 1;
        // What stands after the last byte is not looked at.
        tokens.resize(time, 0);
        let logits = batcher.run(vec![Row::I64(tokens), Row::I64(vec![last])]).await?;
        let Some(Row::F32(logits)) = logits.first() else {
            return Err(Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "the program gave no logits"));
        };
        text.push(draw(logits, wish.temperature, &mut random));
    }
    Ok(text)
}

/// A byte with the probabilities of `softmax(logits / temperature)`.
fn draw(logits: &[f32], temperature: f64, random: &mut u64) -> u8 {
    let greatest = (0..logits.len()).max_by(|a, b| logits[*a].total_cmp(&logits[*b]).then(b.cmp(a))).unwrap_or(0);
    if temperature == 0.0 {
        return greatest as u8;
    }
    let weight = |x: f32| ((x as f64 - logits[greatest] as f64) / temperature).exp();
    let total: f64 = logits.iter().map(|x| weight(*x)).sum();
    let mut left = uniform(random) * total;
    for (i, x) in logits.iter().enumerate() {
        left -= weight(*x);
        if left < 0.0 {
            return i as u8;
        }
    }
    greatest as u8
}

/// splitmix64: Steele et al., "Fast splittable pseudorandom number generators", 2014. In [0, 1).
fn uniform(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}
