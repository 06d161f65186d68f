//! One update of many parameters becomes one for each, on request: each can run, and its gradient's memory be free, as soon as
//! that gradient is there.

use super::fusion::update::{is_update, lists, part};
use crate::Config;
use crate::ir::Graph;
use oneflow_base::Result;

pub fn run(g: &mut Graph, config: &Config) -> Result<bool> {
    if config.multi_tensor_update {
        return Ok(false);
    }
    let before = g.nodes.len();
    let nodes = std::mem::take(&mut g.nodes);
    for n in nodes {
        let count = lists(&n).first().copied().unwrap_or(0);
        if is_update(&n) && count > 1 {
            g.nodes.extend((0..count).map(|k| part(&n, &[k])));
        } else {
            g.nodes.push(n);
        }
    }
    Ok(g.nodes.len() != before)
}
