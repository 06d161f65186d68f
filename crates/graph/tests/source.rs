//! A plan fed by a file: the source reads ahead under back-pressure and returns the same batches as on its own.

mod common;

use common::*;
use oneflow_base::{DType, Device};
use oneflow_core::Tensor;
use oneflow_data::{TokenKind, TokenSource};
use oneflow_graph::{Config, Tracer, compile};
use oneflow_ops::TensorOps;
use oneflow_runtime::Session;

fn file(name: &str, bytes: &[u8]) -> std::path::PathBuf {
    let path = std::env::temp_dir().join(format!("oneflow-{name}-{}.tokens", std::process::id()));
    std::fs::write(&path, bytes).unwrap();
    path
}

fn source(path: std::path::PathBuf, position: u64) -> TokenSource {
    TokenSource { path, kind: TokenKind::U16, batch: 3, window: 5, seed: 4, position }
}

fn alone(s: &TokenSource, n: usize) -> Vec<Vec<i64>> {
    let mut r = s.open().unwrap();
    (0..n)
        .map(|_| {
            let mut v = vec![0; s.batch * s.window];
            r.next_batch(&mut v);
            v
        })
        .collect()
}

#[test]
fn a_plan_fed_by_a_file_gives_the_batches_in_order() {
    setup();
    oneflow_data::register();
    let words: Vec<u8> = (0..1000u16).flat_map(|i| (i * 7).to_le_bytes()).collect();
    let path = file("feed", &words);
    let src = source(path.clone(), 0);
    let tracer = Tracer::begin("fed", None).unwrap();
    let like = Tensor::empty(DType::I64, Device::CPU, &[3, 5]).unwrap();
    let bias = Tensor::empty(DType::I64, Device::CPU, &[5]).unwrap();
    let (x, b) = (tracer.input(&like).unwrap(), tracer.input(&bias).unwrap());
    let y = x.mul(2.0 as i64).unwrap().add(&b).unwrap();
    let c = compile(tracer.finish(&[y]).unwrap(), &Config::default()).unwrap();
    let (plan, weights) = c.session.to_bytes().unwrap();
    let mut plan = oneflow_runtime::Plan::from_bytes(&plan).unwrap();
    plan.feed_input(0, "tokens", src.config().unwrap(), 2).unwrap();
    // Through bytes, as a file would carry it.
    let mut s = Session::from_bytes(&plan.to_bytes(), &weights).unwrap();
    // SAFETY: i64 is the Rust type of I64.
    let bias = unsafe { Tensor::from_host(&[1i64, 2, 3, 4, 5], DType::I64, &[5]) }.unwrap();
    let want = alone(&src, 40);
    for (i, w) in want.iter().enumerate() {
        let out = s.run(std::slice::from_ref(&bias)).unwrap();
        let have: Vec<i64> =
            bytes(&out[0]).chunks_exact(8).map(|b| i64::from_le_bytes(b.try_into().unwrap())).collect();
        let w: Vec<i64> = w.iter().enumerate().map(|(k, x)| 2 * x + (k % 5) as i64 + 1).collect();
        assert_eq!(have, w, "batch {i}");
    }
    // A position is all a checkpoint needs.
    assert_eq!(alone(&source(path.clone(), 17), 5), want[17..22]);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn wrong_files_are_errors() {
    setup();
    let odd = file("odd", &[1, 2, 3]);
    assert!(source(odd.clone(), 0).open().is_err());
    std::fs::remove_file(&odd).unwrap();
    assert!(source(odd, 0).open().is_err());
    assert!(TokenSource::parse(b"u16 3 5").is_err());
    assert!(TokenSource::parse(b"\xff").is_err());
}

/// Plans from files: with every single damaged byte there is an error or a plan that runs, never a crash.
#[test]
fn damaged_plans_are_errors() {
    setup();
    let tracer = Tracer::begin("damaged", None).unwrap();
    let w = leaf(&[3, 4], 3);
    let x = tracer.input(&tensor(&[2, 4], 1)).unwrap();
    let y = x.linear(&w, None).unwrap().gelu().unwrap().softmax(-1, None).unwrap();
    let loss = y.square().unwrap().sum(None, false).unwrap();
    let g = oneflow_autograd::grad_of(&[loss], &[w], &[None], false, false).unwrap().remove(0).unwrap();
    let c = compile(tracer.finish(&[y, g]).unwrap(), &Config::default()).unwrap();
    let (plan, weights) = c.session.to_bytes().unwrap();
    let input = tensor(&[2, 4], 1);
    let run = |plan: &[u8], weights: &[u8]| Session::from_bytes(plan, weights)?.run(std::slice::from_ref(&input));
    assert!(run(&plan, &weights).is_ok());
    for n in 0..plan.len() {
        assert!(run(&plan[..n], &weights).is_err(), "the plan cut to {n} bytes");
    }
    for n in 0..weights.len() {
        assert!(run(&plan, &weights[..n]).is_err(), "the weights cut to {n} bytes");
    }
    let damaged = |good: &[u8], run: &dyn Fn(&[u8]) -> bool| {
        let mut refused = 0;
        for i in 0..good.len() {
            for flip in [0xff, 0x01, 0x80] {
                let mut bad = good.to_vec();
                bad[i] ^= flip;
                refused += run(&bad) as usize;
            }
        }
        refused
    };
    let refused = damaged(&plan, &|bad| run(bad, &weights).is_err());
    assert!(refused > plan.len(), "{refused} of {}", 3 * plan.len());
    // The values themselves may be any; a header may not.
    let refused = damaged(&weights, &|bad| run(&plan, bad).is_err());
    assert!(refused > weights.len() / 2, "{refused} of {}", 3 * weights.len());
}

/// Programs in a directory: what is not what the plan was compiled for is named.
#[test]
fn saved_programs_name_what_does_not_fit() {
    setup();
    let tracer = Tracer::begin("saved", None).unwrap();
    let w = leaf(&[3, 4], 3);
    let x = tracer.input(&tensor(&[2, 4], 1)).unwrap();
    let y = x.linear(&w, None).unwrap();
    let c = compile(tracer.finish(&[y]).unwrap(), &Config::default()).unwrap();
    let dir = std::env::temp_dir().join(format!("oneflow-saved-{}", std::process::id()));
    assert!(Session::load(&dir).err().unwrap().text().contains("plan.bin"));
    c.session.save(&dir).unwrap();
    c.session.save(&dir).unwrap();
    let input = tensor(&[2, 4], 1);
    let want = bytes(&Session::load(&dir).unwrap().run(std::slice::from_ref(&input)).unwrap()[0]);
    // Many threads over one copy of the weights.
    let pool = oneflow_runtime::Pool::load(&dir, 3).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..50 {
                    assert_eq!(bytes(&pool.run(std::slice::from_ref(&input)).unwrap()[0]), want);
                }
            });
        }
    });
    std::fs::remove_file(dir.join("weights.safetensors")).unwrap();
    assert!(Session::load(&dir).err().unwrap().text().contains("weights.safetensors"));
    std::fs::remove_dir_all(&dir).unwrap();
    let (plan, _) = c.session.to_bytes().unwrap();
    let other = compile(
        {
            let tracer = Tracer::begin("other", None).unwrap();
            let x = tracer.input(&tensor(&[2, 4], 1)).unwrap();
            let y = x.linear(&leaf(&[5, 4], 3), None).unwrap();
            tracer.finish(&[y]).unwrap()
        },
        &Config::default(),
    );
    let (_, weights) = other.unwrap().session.to_bytes().unwrap();
    let e = Session::from_bytes(&plan, &weights).err().unwrap();
    assert!(e.text().contains("[5, 4]") && e.text().contains("[3, 4]"), "{e}");
}
