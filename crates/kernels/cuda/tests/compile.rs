//! Every kernel text compiles to machine code, without a GPU. Needs the compiler's library: `ONEFLOW_CUDA_LIB_DIRS` names
//! its directory; where that is unset and none is installed, the test says so and passes.

use oneflow_ep::cuda;
use oneflow_kernels_cuda::{Text, all_sources, expr_sources};
use oneflow_kernels_prim::{Expr, expr};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

static GELU: Expr = expr!(float "test_gelu", |x| {
    x * L::splat(0.5) * (L::splat(1.0) + (x * L::splat(std::f64::consts::FRAC_1_SQRT_2)).erf())
});
static ADD: Expr = expr!(num "test_add", |x, y; p| x + p[0] * y);
static POW: Expr = expr!(num "test_pow", |x, y| x.pow(y).maximum(x.rem_floor(y)));

fn compile_all(texts: &[&Text], arch: &str) -> Vec<String> {
    let (next, errors) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|s| {
        for _ in 0..2 {
            s.spawn(|| {
                while let Some(t) = texts.get(next.fetch_add(1, Relaxed)) {
                    match cuda::compile(t, arch) {
                        Ok(code) => assert!(code.starts_with(b"\x7fELF"), "{}", t.name),
                        Err(e) => errors.lock().unwrap().push(e.text().to_string()),
                    }
                }
            });
        }
    });
    errors.into_inner().unwrap()
}

#[test]
fn every_text_compiles_for_ampere_and_hopper() {
    let mut texts = all_sources().unwrap();
    for e in [&GELU, &ADD, &POW] {
        texts.extend(expr_sources(e).unwrap());
    }
    assert!(texts.len() > 250, "{}", texts.len());
    if let Err(e) = cuda::nvrtc() {
        assert!(std::env::var_os("ONEFLOW_CUDA_LIB_DIRS").is_none_or(|v| v.is_empty()), "{e}");
        eprintln!("not compiled: {e}");
        return;
    }
    // What is C++ alone is the same for both, and compiled for one of them by turns.
    for (turn, arch) in ["sm_80", "sm_90a"].into_iter().enumerate() {
        let of_both = |t: &Text| t.source.contains("asm volatile");
        let texts: Vec<_> =
            texts.iter().enumerate().filter(|(i, t)| i % 2 == turn || of_both(t)).map(|(_, t)| t).collect();
        let errors = compile_all(&texts, arch);
        assert!(errors.is_empty(), "{} of {} texts:\n{}", errors.len(), texts.len(), errors.join("\n---\n"));
    }
}

/// The number before `what` in the compiler's report.
fn number_before(log: &str, what: &str) -> u32 {
    let before = log.split(what).next().unwrap_or_default().trim_end();
    before.rsplit(' ').next().and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("no {what:?} in {log:?}"))
}

#[test]
fn attention_on_tensor_cores_keeps_everything_in_registers() {
    let Ok(nvrtc) = cuda::nvrtc() else { return };
    let texts = all_sources().unwrap();
    let texts: Vec<_> = texts.iter().filter(|t| t.name.starts_with("attention by tensor cores")).collect();
    assert_eq!(texts.len(), 20);
    for t in texts {
        for arch in ["sm_80", "sm_90a"] {
            let options = [t.options, &["--ptxas-options=-v"]].concat();
            let (_, log) = nvrtc.compile_with_log(&t.name, &t.source, arch, &options).unwrap();
            let spilled = number_before(&log, " bytes spill stores") + number_before(&log, " bytes spill loads");
            assert_eq!(spilled, 0, "{} for {arch}: {log}", t.name);
            // Two blocks of 128 threads share the 65,536 registers of a multiprocessor.
            assert!(number_before(&log, " registers") <= 255, "{} for {arch}: {log}", t.name);
        }
    }
}

/// The disassembler: of the search path, or of the Triton beside the vendor's libraries.
fn disassembler() -> Option<PathBuf> {
    let dirs = std::env::var_os("ONEFLOW_CUDA_LIB_DIRS").unwrap_or_default();
    let beside =
        std::env::split_paths(&dirs).filter_map(|d| Some(d.ancestors().nth(3)?.join("triton/backends/nvidia/bin")));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = beside.chain(std::env::split_paths(&path)).map(|d| d.join("nvdisasm")).find(|p| p.is_file());
    if found.is_none() {
        eprintln!("not disassembled: no nvdisasm was found");
    }
    found
}

/// What a kernel's machine code has to contain, by the beginning of its name.
const INSTRUCTIONS: [(&str, &[&str]); 6] = [
    ("attention by tensor cores PART=0", &["HMMA", "LDSM", "LDGSTS"]),
    ("attention by tensor cores PART=2", &["HMMA", "LDSM", "LDGSTS"]),
    ("attention by tensor cores PART=3", &["HMMA", "LDSM", "LDGSTS"]),
    ("conv by tensor cores", &["HMMA", "LDSM", "LDGSTS"]),
    ("row KIND", &["LDG.E.128", "STG.E.128"]),
    ("cross_entropy FORWARD=0", &["LDG.E.128", "STG.E.128"]),
];

#[test]
fn machine_code_has_tensor_cores_and_wide_accesses() {
    let (Ok(_), Some(tool)) = (cuda::nvrtc(), disassembler()) else { return };
    let texts = all_sources().unwrap();
    for (name, wanted) in INSTRUCTIONS {
        let mut n = 0;
        for t in texts.iter().filter(|t| t.name.starts_with(name)) {
            let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("disassembled.cubin");
            std::fs::write(&file, cuda::compile(t, "sm_90a").unwrap()).unwrap();
            let done = Command::new(&tool).arg("-c").arg(&file).output().unwrap();
            let said = String::from_utf8_lossy(&done.stderr);
            assert!(done.status.success(), "{}: nvdisasm ended with {}: {said}", t.name, done.status);
            let code = String::from_utf8_lossy(&done.stdout);
            for w in wanted {
                assert!(code.contains(w), "{}: no {w} in {} bytes of machine code", t.name, code.len());
            }
            n += 1;
        }
        assert!(n > 0, "no kernel is named {name:?}");
    }
}

#[test]
fn a_planted_error_is_found() {
    if cuda::nvrtc().is_err() {
        return;
    }
    let mut t = all_sources().unwrap().swap_remove(0);
    t.source.push_str("D f32 planted() { return not_there; }");
    let errors = compile_all(&[&t], "sm_80");
    assert!(errors.len() == 1 && errors[0].contains("not_there"));
}

/// The most registers that a thread of a family's kernels has, and the most bytes that are spilled to memory, by the first words of
/// the kernels' names; the longest that fits counts. Blocks of 1024 threads have 64 registers a thread at most.
const REGISTERS: [(&str, u32, u32); 37] = [
    ("arg_reduce", 64, 0),
    ("attention", 255, 0),
    ("batch_norm", 64, 16),
    ("concat", 48, 0),
    ("conv", 128, 0),
    ("copy", 48, 0),
    ("cross_entropy", 64, 20),
    ("ctc", 72, 0),
    ("embedding", 48, 0),
    ("embedding_backward", 48, 0),
    ("embedding_bag", 48, 0),
    ("fill", 40, 0),
    ("index", 48, 0),
    ("keys", 32, 0),
    ("layer_norm", 64, 0),
    ("logcumsumexp", 64, 0),
    ("matmul", 48, 0),
    ("nonzero", 48, 0),
    ("norms", 40, 0),
    ("pad", 96, 0),
    ("pooling", 56, 0),
    ("radix", 64, 0),
    ("random", 48, 0),
    ("random_by", 104, 0),
    ("reduce", 64, 0),
    ("resample", 48, 0),
    ("rnn", 40, 0),
    ("row", 128, 0),
    ("scale", 32, 0),
    ("scan", 56, 0),
    ("searchsorted", 48, 0),
    ("softmax", 64, 0),
    ("solver", 32, 0),
    ("sort", 40, 0),
    ("triangle", 48, 0),
    ("unscale", 40, 0),
    ("updates", 32, 0),
];

#[test]
fn registers_and_spills_stay_within_a_table() {
    let Ok(nvrtc) = cuda::nvrtc() else { return };
    let texts = all_sources().unwrap();
    let mut families: Vec<Vec<&Text>> = vec![Vec::new(); REGISTERS.len()];
    for t in &texts {
        let fits = (0..REGISTERS.len()).filter(|i| t.name.starts_with(REGISTERS[*i].0));
        let family = fits.max_by_key(|i| REGISTERS[*i].0.len());
        families[family.unwrap_or_else(|| panic!("{} has no entry in the table of registers", t.name))].push(t);
    }
    // Six of each family, spread over its dtypes and variants, each for one architecture by turns.
    let mut chosen = Vec::new();
    for (i, texts) in families.iter().enumerate() {
        assert!(!texts.is_empty(), "{} is the name of no kernel", REGISTERS[i].0);
        let n = texts.len().min(6);
        let archs = ["sm_80", "sm_90a", "sm_100"].into_iter().cycle();
        chosen.extend((0..n).zip(archs).map(|(k, arch)| (i, texts[k * texts.len() / n], arch)));
    }
    let (next, faults) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|s| {
        for _ in 0..2 {
            s.spawn(|| {
                while let Some((i, t, arch)) = chosen.get(next.fetch_add(1, Relaxed)) {
                    let options = [t.options, &["--ptxas-options=-v"]].concat();
                    let (_, log) = nvrtc.compile_with_log(&t.name, &t.source, arch, &options).unwrap();
                    let spilled =
                        number_before(&log, " bytes spill stores") + number_before(&log, " bytes spill loads");
                    let (registers, (_, most, most_spilled)) = (number_before(&log, " registers"), REGISTERS[*i]);
                    if registers > most || spilled > most_spilled {
                        let name = &t.name;
                        faults.lock().unwrap().push(format!(
                            "{name} for {arch}: {registers} registers of {most}, {spilled} bytes spilled of {most_spilled}"
                        ));
                    }
                }
            });
        }
    });
    let faults = faults.into_inner().unwrap();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
