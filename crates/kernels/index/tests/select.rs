//! INDEX_SELECT, GATHER, SCATTER, INDEX, INDEX_PUT and CONCAT against plain loops.

use oneflow_base::{DType, ErrorKind};
use oneflow_kernels_prim::*;
use oneflow_kernels_testing::*;

const SIZES: [DType; 5] = [DType::Bool, DType::BF16, DType::F32, DType::I64, DType::C128];

fn index_of(sizes: &[i64], bound: i64, dtype: DType, lay: Lay) -> Buf {
    Buf::of(dtype, sizes, lay, |i| ((i * 7 + i / 3) as i64 % bound) as f64)
}

#[test]
fn index_select_and_gather() {
    oneflow_kernels_index::register();
    let sizes = [4, 5, 6];
    for dtype in SIZES {
        for lay in LAYS {
            let x = Buf::of(dtype, &sizes, lay, |i| (i % 120) as f64);
            for dim in 0..3 {
                for idx in [DType::I64, DType::I32] {
                    let index = index_of(&[7], sizes[dim], idx, Lay::Gaps);
                    let mut os = sizes;
                    os[dim] = 7;
                    let out = Buf::new(dtype, &os, lay);
                    run(&INDEX_SELECT, &[Some(&out)], &[Some(&x), Some(&index)], words![dim as i64]).unwrap();
                    for i in 0..out.len() {
                        let mut c = coords(i, &os);
                        c[dim] = index.get(c[dim]) as usize;
                        assert_eq!(out.get(i), x.get(linear(&c, &sizes)), "index_select {dtype} {lay:?} {dim}");
                    }
                    let mut is = [3, 4, 5];
                    is[dim] = 8;
                    let index = index_of(&is, sizes[dim], idx, lay);
                    let out = Buf::new(dtype, &is, Lay::Plain);
                    run(&GATHER, &[Some(&out)], &[Some(&x), Some(&index)], words![dim as i64]).unwrap();
                    for i in 0..out.len() {
                        let mut c = coords(i, &is);
                        c[dim] = index.get(i) as usize;
                        assert_eq!(out.get(i), x.get(linear(&c, &sizes)), "gather {dtype} {lay:?} {dim}");
                    }
                }
            }
        }
    }
}

#[test]
fn scatter_kinds() {
    oneflow_kernels_index::register();
    let (sizes, is) = ([4, 5, 6], [4, 3, 6]);
    let fs: [fn(f64, f64) -> f64; 5] = [|_, v| v, |a, b| a + b, |a, b| a * b, f64::max, f64::min];
    for dtype in [DType::F32, DType::F64, DType::BF16, DType::I64, DType::I32, DType::U8] {
        for (kind, f) in fs.iter().enumerate() {
            for lay in LAYS {
                for dim in 0..3 {
                    let out = Buf::of(dtype, &sizes, lay, |i| (i % 3) as f64);
                    let src = Buf::of(dtype, &is, lay, |i| (i % 2 + 1) as f64);
                    let index = index_of(&is, sizes[dim], DType::I64, lay);
                    let mut want = out.values();
                    for i in 0..src.len() {
                        let mut c = coords(i, &is);
                        c[dim] = index.get(i) as usize;
                        let w = &mut want[linear(&c, &sizes)];
                        *w = f(*w, src.get(i));
                    }
                    run(&SCATTER, &[Some(&out)], &[Some(&index), Some(&src)], words![dim as i64, kind as i64]).unwrap();
                    // Values are small integers, so the order of a sum does not matter.
                    assert_eq!(out.values(), want, "{dtype} kind {kind} {lay:?} dim {dim}");
                }
            }
        }
    }
}

#[test]
fn scalars_and_empty_tensors() {
    oneflow_kernels_index::register();
    let x = Buf::from(DType::F32, &[], &[3.0]);
    let index = Buf::ints(&[], &[0]);
    let out = Buf::new(DType::F32, &[], Lay::Plain);
    run(&GATHER, &[Some(&out)], &[Some(&x), Some(&index)], words![0i64]).unwrap();
    assert_eq!(out.get(0), 3.0);
    run(&SCATTER, &[Some(&out)], &[Some(&index), Some(&x)], words![0i64, 1i64]).unwrap();
    assert_eq!(out.get(0), 6.0);
    let one = Buf::ints(&[1], &[0]);
    run(&INDEX_SELECT, &[Some(&out)], &[Some(&x), Some(&one)], words![0i64]).unwrap();
    assert_eq!(out.get(0), 3.0);
    let (x, index) = (Buf::new(DType::F32, &[0, 3], Lay::Plain), Buf::ints(&[0], &[]));
    run(&INDEX_SELECT, &[Some(&x)], &[Some(&x), Some(&index)], words![0i64]).unwrap();
}

#[test]
fn wrong_indices_are_index_errors_and_write_nothing() {
    oneflow_kernels_index::register();
    let x = Buf::of(DType::F32, &[3, 2], Lay::Plain, |i| i as f64);
    for bad in [5, -1] {
        let out = Buf::from(DType::F32, &[2, 2], &[9.0; 4]);
        let text = format!("index {bad} is out of bounds for dimension 0 with size 3");
        let index = Buf::ints(&[2], &[0, bad]);
        let e = run(&INDEX_SELECT, &[Some(&out)], &[Some(&x), Some(&index)], words![0i64]).unwrap_err();
        assert_eq!((e.kind(), e.text()), (ErrorKind::Index, text.as_str()));
        let index = Buf::ints(&[2, 2], &[0, 1, 2, bad]);
        let e = run(&GATHER, &[Some(&out)], &[Some(&x), Some(&index)], words![0i64]).unwrap_err();
        assert_eq!((e.kind(), e.text()), (ErrorKind::Runtime, format!("gather(): {text}").as_str()));
        let e = run(&SCATTER, &[Some(&x)], &[Some(&index), Some(&out)], words![0i64, 0i64]).unwrap_err();
        assert_eq!((e.kind(), e.text()), (ErrorKind::Runtime, format!("scatter(): {text}").as_str()));
        assert_eq!(out.values(), [9.0; 4]);
        assert_eq!(x.get(5), 5.0);
    }
    let index = Buf::ints(&[1], &[-4]);
    let out = Buf::new(DType::F32, &[1, 2], Lay::Plain);
    let e = run(&INDEX, &[Some(&out)], &[Some(&x), Some(&index), None], words![0i64, 1i64]).unwrap_err();
    assert_eq!(e.text(), "index -4 is out of bounds for dimension 0 with size 3");
}

/// The position and sizes INDEX gives, for indices of one shape at `dims`.
fn indexed_sizes(sizes: &[i64], dims: &[usize], shape: &[i64]) -> (usize, Vec<i64>) {
    let rest: Vec<i64> = (0..sizes.len()).filter(|d| !dims.contains(d)).map(|d| sizes[d]).collect();
    let adjacent = dims.windows(2).all(|w| w[1] == w[0] + 1);
    let pos = if adjacent { dims[0] } else { 0 };
    (pos, [&rest[..pos], shape, &rest[pos..]].concat())
}

#[test]
fn index_and_index_put() {
    oneflow_kernels_index::register();
    let sizes = [3, 4, 5];
    for dims in [&[0][..], &[1], &[2], &[0, 1], &[1, 2], &[0, 2], &[0, 1, 2]] {
        for shape in [&[6][..], &[2, 3], &[]] {
            for lay in LAYS {
                let (pos, os) = indexed_sizes(&sizes, dims, shape);
                let index: Vec<Option<Buf>> = (0..3)
                    .map(|d| {
                        let f = |i: usize| ((i * 5 + d) as i64 % sizes[d] - (i as i64 % 2) * sizes[d]) as f64;
                        dims.contains(&d).then(|| Buf::of(DType::I64, shape, lay, f))
                    })
                    .collect();
                let source = |i: usize| {
                    let c = coords(i, &os);
                    let p = linear(&c[pos..pos + shape.len()], shape);
                    let mut rest = c[..pos].iter().chain(&c[pos + shape.len()..]);
                    let at: Vec<usize> = (0..3)
                        .map(|d| match &index[d] {
                            Some(b) => (b.get(p) as i64).rem_euclid(sizes[d]) as usize,
                            None => *rest.next().unwrap(),
                        })
                        .collect();
                    linear(&at, &sizes)
                };
                for dtype in [DType::F32, DType::I64, DType::C128, DType::BF16] {
                    let what = format!("{dtype} {dims:?} {shape:?} {lay:?}");
                    let x = Buf::of(dtype, &sizes, lay, |i| (i % 90) as f64);
                    let out = Buf::new(dtype, &os, lay);
                    let params = words![pos as i64, shape.len() as i64];
                    let mut ins = vec![Some(&x)];
                    ins.extend(index.iter().map(|b| b.as_ref()));
                    run(&INDEX, &[Some(&out)], &ins, params).unwrap();
                    for i in 0..out.len() {
                        assert_eq!(out.get(i), x.get(source(i)), "index {what}");
                    }
                    for accumulate in [false, true] {
                        let target = Buf::of(dtype, &sizes, lay, |i| (i % 2) as f64);
                        let value = Buf::of(dtype, &os, lay, |i| (i % 3) as f64);
                        let mut want = target.values();
                        for i in 0..value.len() {
                            let w = &mut want[source(i)];
                            *w = value.get(i) + if accumulate { *w } else { 0.0 };
                        }
                        let mut ins = ins.clone();
                        ins[0] = Some(&value);
                        let params = words![pos as i64, shape.len() as i64, accumulate];
                        run(&INDEX_PUT, &[Some(&target)], &ins, params).unwrap();
                        assert_eq!(target.values(), want, "index_put {accumulate} {what}");
                    }
                }
            }
        }
    }
}

#[test]
fn index_put_takes_a_broadcast_value() {
    oneflow_kernels_index::register();
    let target = Buf::of(DType::F32, &[4], Lay::Plain, |_| 0.0);
    let mut value = Buf::from(DType::F32, &[3, 2], &[2.0; 6]);
    value.strides = vec![0, 0];
    let index = Buf::ints(&[3, 2], &[0, 1, 1, 3, 3, 3]);
    run(&INDEX_PUT, &[Some(&target)], &[Some(&value), Some(&index)], words![0i64, 2i64, true]).unwrap();
    assert_eq!(target.values(), [2.0, 4.0, 0.0, 6.0]);
}

#[test]
fn concat() {
    oneflow_kernels_index::register();
    for dtype in SIZES {
        for lay in LAYS {
            for dim in 0..3 {
                let mut sizes = [2, 3, 4];
                let parts: Vec<Buf> = [3, 0, 1, 5]
                    .into_iter()
                    .enumerate()
                    .map(|(p, n)| {
                        sizes[dim] = n;
                        Buf::of(dtype, &sizes, LAYS[(p + lay as usize) % 4], move |i| (i % 50 + p) as f64)
                    })
                    .collect();
                sizes[dim] = 9;
                let out = Buf::new(dtype, &sizes, lay);
                let mut ins: Vec<Option<&Buf>> = parts.iter().map(Some).collect();
                ins.insert(1, None);
                run(&CONCAT, &[Some(&out)], &ins, words![dim as i64]).unwrap();
                for i in 0..out.len() {
                    let mut c = coords(i, &sizes);
                    let mut p = 0;
                    while c[dim] >= parts[p].sizes[dim] as usize {
                        c[dim] -= parts[p].sizes[dim] as usize;
                        p += 1;
                    }
                    assert_eq!(out.get(i), parts[p].get(linear(&c, &parts[p].sizes)), "{dtype} {lay:?} {dim}");
                }
            }
        }
    }
}

#[test]
fn concat_of_channels_last() {
    oneflow_kernels_index::register();
    let make = |dtype: DType, sizes: &[i64], last: bool, salt: usize| {
        let mut b = Buf::of(dtype, sizes, Lay::Plain, |i| ((7 * i + salt) % 50) as f64);
        let values = b.values();
        let mut step = 1;
        for d in if last { [1, 3, 2, 0] } else { [3, 2, 1, 0] } {
            b.strides[d] = step;
            step *= sizes[d];
        }
        values.into_iter().enumerate().for_each(|(i, v)| b.set(i, v));
        b
    };
    for dtype in SIZES {
        for (channels, mixed) in [([3, 1, 16], false), ([32, 8, 5], false), ([3, 4, 5], true)] {
            for dim in 0..4 {
                let mut sizes = [2, 3, 4, 5];
                let parts = [0, 1, 2].map(|p| {
                    sizes[dim] = channels[p];
                    make(dtype, &sizes, !mixed || p != 1, p)
                });
                sizes[dim] = channels.iter().sum();
                let out = make(dtype, &sizes, true, 0);
                run(&CONCAT, &[Some(&out)], &parts.each_ref().map(Some), words![dim as i64]).unwrap();
                for i in 0..out.len() {
                    let mut c = coords(i, &sizes);
                    let mut p = 0;
                    while c[dim] >= channels[p] as usize {
                        c[dim] -= channels[p] as usize;
                        p += 1;
                    }
                    assert_eq!(out.get(i), parts[p].get(linear(&c, &parts[p].sizes)), "{dtype} {channels:?} {dim}");
                }
            }
        }
    }
}

#[test]
fn long_concat_and_copy_blocks() {
    oneflow_kernels_index::register();
    let x = Buf::of(DType::F32, &[3, 50_000], Lay::Plain, |i| i as f64);
    let y = Buf::of(DType::F32, &[3, 7], Lay::Plain, |i| -(i as f64));
    let out = Buf::new(DType::F32, &[3, 50_007], Lay::Plain);
    run(&CONCAT, &[Some(&out)], &[Some(&x), Some(&y)], words![1i64]).unwrap();
    for i in 0..out.len() {
        let (r, c) = (i / 50_007, i % 50_007);
        let want = if c < 50_000 { (r * 50_000 + c) as f64 } else { -((r * 7 + c - 50_000) as f64) };
        assert_eq!(out.get(i), want);
    }
}

#[test]
fn concat_casts() {
    oneflow_kernels_index::register();
    oneflow_kernels_elementwise::register();
    let parts = [DType::I64, DType::F32, DType::BF16].map(|d| Buf::of(d, &[2, 3], Lay::Reversed, |i| i as f64));
    let out = Buf::new(DType::F32, &[2, 9], Lay::Gaps);
    run(&CONCAT, &[Some(&out)], &parts.each_ref().map(Some), words![1i64]).unwrap();
    assert!((0..18).all(|i| out.get(i) == (i / 9 * 3 + i % 3) as f64));
}
