//! A step traced at several sizes as one plan: saved and read again, it gives what the ops give at sizes that nobody traced;
//! steps that do not follow from their sizes are refused by their ops.

mod common;

use common::*;
use oneflow_base::Result;
use oneflow_core::Tensor;
use oneflow_graph::{
    Check, Compiled, Config, Decision, Points, Traced, Tracer, compile_at_sizes, guards_of, unfollowed,
};
use oneflow_ops::{TensorOps, f};
use oneflow_runtime::{Asked, NamedDim, Read, Session};

type Step<'a> = dyn Fn(&Tensor) -> Result<Vec<Tensor>> + 'a;

fn dim(name: &str, axis: u32) -> NamedDim {
    let read = Some(Read { input: 0, axis, factor: 1, constant: 0 });
    NamedDim { name: name.into(), min: 1, max: i64::MAX, step: 1, start: 1, read }
}

const WIDTH: i64 = 8;

fn traced(step: &Step<'_>, sizes: &[i64]) -> Result<Traced> {
    setup();
    let tracer = Tracer::begin("dynamic", None)?;
    let x = tracer.input(&zeros(&[sizes[0], sizes[1], WIDTH]))?;
    let results = step(&x)?;
    tracer.finish(&results)
}

/// Batch and length stay open: the base, each grown, both grown, and two that confirm.
fn points() -> Points {
    let sizes = [[4, 5], [5, 5], [4, 7], [5, 7], [9, 11], [13, 17]];
    Points { dims: vec![dim("batch", 0), dim("length", 1)], sizes: sizes.map(|s| s.to_vec()).to_vec() }
}

fn compiled(step: &Step<'_>, checks: &[[i64; 2]]) -> Result<Compiled> {
    let points = points();
    let all = points.sizes.iter().map(|s| traced(step, s)).collect::<Result<Vec<_>>>()?;
    let check = |s: &[i64; 2]| Ok(Check { sizes: s.to_vec(), traced: traced(step, s)? });
    let checks = checks.iter().map(check).collect::<Result<Vec<_>>>()?;
    compile_at_sizes(all, &checks, &points, Vec::new(), &Config::default())
}

/// Attention with a mask of the length, whose results have every kind of size.
fn attention(w: &Tensor, x: &Tensor) -> Result<Vec<Tensor>> {
    let length = x.sizes()[1];
    let q = x.linear(w, None)?.gelu()?;
    let scores = q.matmul(&x.transpose(1, 2)?)?;
    let at = f::arange(length)?;
    let seen = at.unsqueeze(1)?.sub(&at.unsqueeze(0)?)?.ge(0)?;
    let scores = scores.masked_fill(&seen.logical_not()?, -1e9)?;
    let y = scores.softmax(-1, None)?.matmul(x)?;
    let z = f::cat([&y, &x.mul(2.0)?], 2)?;
    Ok(vec![
        z.slice(1, Some(1), None, 1)?.mul(3.0)?,
        scores.reshape(&[-1])?.mul(0.5)?,
        y.mean(None, false)?,
        z.sum(&[0], false)?,
    ])
}

fn close(a: &Tensor, b: &Tensor) {
    assert_eq!(a.sizes(), b.sizes());
    for (x, y) in floats(a).iter().zip(floats(b)) {
        assert!((x - y).abs() <= 1e-5 * (1.0 + y.abs()), "{x} {y}");
    }
}

#[test]
fn one_plan_gives_what_the_ops_give_at_sizes_that_nobody_traced() {
    let w = tensor(&[WIDTH, WIDTH], 3);
    let step = |x: &Tensor| attention(&w, x);
    let made = compiled(&step, &[[6, 3], [2, 64]]).unwrap();
    let (plan, weights) = made.session.to_bytes().unwrap();
    let mut sessions = [made.session, Session::from_bytes(&plan, &weights).unwrap()];
    for (b, l) in [(4, 5), (1, 2), (2, 9), (30, 3), (7, 40), (3, 1), (4, 5), (16, 16), (8, 8)] {
        let x = tensor(&[b, l, WIDTH], (100 * b + l) as u64);
        let want = step(&x).unwrap();
        for s in &mut sessions {
            let found = s.run(std::slice::from_ref(&x)).unwrap();
            assert_eq!(found.len(), want.len());
            found.iter().zip(&want).for_each(|(a, b)| close(a, b));
        }
    }
    let shapes: Vec<String> = (0..4).map(|i| sessions[1].plan().output_shape(i).join(" x ")).collect();
    assert_eq!(shapes, ["batch x length - 1 x 16", "batch*length*length", "", "length x 16"]);
    // The memory of a size is that of the plan for it alone: its largest sum of live bytes.
    let at = |b, l| sessions[1].plan().at(&[b, l]).unwrap().arenas[0].bytes;
    assert!(at(1, 8) < at(16, 8) && at(16, 8) <= 17 * at(1, 8));
}

#[test]
fn steps_that_do_not_follow_are_refused_by_their_ops() {
    let refused =
        |step: &Step<'_>, checks: &[[i64; 2]]| compiled(step, checks).map(|_| ()).unwrap_err().text().to_owned();
    let branch = |x: &Tensor| Ok(vec![if x.sizes()[0] > 8 { x.sin()? } else { x.cos()? }]);
    assert!(refused(&branch, &[]).contains("it runs cos(), and sin() for another size"));
    let far = |x: &Tensor| Ok(vec![if x.sizes()[0] > 100 { x.sin()? } else { x.cos()? }]);
    assert!(refused(&far, &[[200, 5]]).contains("sin() for another size"));
    let uneven = |x: &Tensor| x.slice(1, Some(0), Some(x.sizes()[1] % 3 + 1), 1).and_then(|y| Ok(vec![y.mul(2.0)?]));
    let text = refused(&uneven, &[]);
    assert!(text.contains("does not follow from the named dimensions") && text.contains("slice"), "{text}");
    // What is a composition at one size and a kernel at another is said by its ops.
    let at = points();
    let squeeze = |x: &Tensor| Ok(vec![x.squeeze()?.mul(2.0)?]);
    let all: Vec<Traced> = at.sizes.iter().map(|s| traced(&squeeze, s).unwrap()).collect();
    let one = traced(&squeeze, &[1, 5]).unwrap();
    let found = unfollowed(&all.iter().collect::<Vec<_>>(), &[(&[1, 5], &one), (&[6, 9], &all[0])], &at).unwrap();
    assert_eq!(found.iter().map(|f| f.0).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn constants_that_depend_on_a_size_are_refused() {
    let step = |x: &Tensor| Ok(vec![x.mul(&tensor(&[1], x.sizes()[0] as u64))?]);
    let text = compiled(&step, &[]).map(|_| ()).unwrap_err().text().to_owned();
    assert!(
        text.contains("the constant") && text.contains("mul") && text.contains("depends on a named dimension"),
        "{text}"
    );
}

#[test]
fn questions_of_all_traces_become_guards() {
    let points = points();
    let asks = |f: &dyn Fn(i64, i64) -> Vec<(Asked, i64, i64)>| -> Vec<Vec<Decision>> {
        let decision = |(asked, a, b): (Asked, i64, i64)| {
            let answer = asked.of(a, b).unwrap();
            Decision { asked, a, b, answer, place: "here".into() }
        };
        points.sizes.iter().map(|s| f(s[0], s[1]).into_iter().map(decision).collect()).collect()
    };
    let shown = |f: &dyn Fn(i64, i64) -> Vec<(Asked, i64, i64)>| -> Vec<String> {
        let guards = guards_of(&asks(f), &points, &[]).unwrap();
        guards.iter().map(|g| g.shown(&points.dims)).collect()
    };
    // What ranges settle and what was asked before is no guard.
    let all = shown(&|b, l| {
        let sizes = [(Asked::Gt, b * l, 0), (Asked::Eq, 3 * b, b + 2 * b), (Asked::Lt, b, 100), (Asked::Lt, b, 100)];
        [
            &sizes[..],
            &[
                (Asked::Eq, b, 2 * l),
                (Asked::Mod, 4 * l + 2, 4),
                (Asked::Mod, 64 * b * l, b),
                (Asked::Ne, 2 * b + 1, 0),
            ],
        ]
        .concat()
    });
    assert_eq!(all, ["batch < 100", "batch != 2*length"]);
    let refused = |f: &dyn Fn(i64, i64) -> Vec<(Asked, i64, i64)>| {
        guards_of(&asks(f), &points, &[]).unwrap_err().text().to_owned()
    };
    assert!(refused(&|b, _| vec![(Asked::Lt, b, 6)]).contains("decides otherwise by a size at here"));
    assert!(refused(&|b, _| vec![(Asked::Lt, b, 60); b as usize]).contains("decides otherwise"));
    assert!(refused(&|b, _| vec![(Asked::Lt, b % 3, 60)]).contains("does not follow from the named dimensions"));
}
