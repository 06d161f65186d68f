//! Plans as bytes: a magic number, a version, then every field in order, numbers little-endian, lists with their length.
//!
//! Reading trusts nothing: every length is compared with what is left before anything is allocated. What the numbers mean
//! is checked afterwards (`check`).

use crate::formulas::{Formula, NamedDim, Polynomial, Read, Term};
use crate::guards::{Asked, Dynamic, Guard};
use crate::plan::*;
use oneflow_base::{DType, Device, DeviceType, Dims, Error, Meta, Result};

const MAGIC: &[u8; 8] = b"ONEFPLAN";
/// Files of a later version are refused, and those before `OLDEST`.
pub const VERSION: u32 = 5;
/// Plans for many sizes without guards are written as this version, plans for one size as `OLDEST`.
const WITHOUT_GUARDS: u32 = 4;
const OLDEST: u32 = 3;

trait Coded: Sized {
    fn put(&self, w: &mut Vec<u8>);
    fn get(r: &mut Reader<'_>) -> Result<Self>;
}

struct Reader<'a> {
    left: &'a [u8],
    whole: usize,
}

impl Reader<'_> {
    /// Says at which byte; the fields on the way there are put before it.
    #[cold]
    fn bad(&self, what: &str) -> Error {
        Error::value(format!(", before byte {}: {what}", self.whole - self.left.len()))
    }

    fn take(&mut self, n: usize) -> Result<&[u8]> {
        if n > self.left.len() {
            return Err(self.bad("it ends too early"));
        }
        let (head, tail) = self.left.split_at(n);
        self.left = tail;
        Ok(head)
    }
}

macro_rules! numbers {
    ($($t:ty)*) => {$(
        impl Coded for $t {
            fn put(&self, w: &mut Vec<u8>) {
                w.extend_from_slice(&self.to_le_bytes());
            }
            fn get(r: &mut Reader<'_>) -> Result<Self> {
                let mut b = [0; size_of::<$t>()];
                b.copy_from_slice(r.take(size_of::<$t>())?);
                Ok(<$t>::from_le_bytes(b))
            }
        }
    )*};
}
numbers!(u8 u16 u32 u64 i64 f64);

impl<A: Coded, B: Coded> Coded for (A, B) {
    fn put(&self, w: &mut Vec<u8>) {
        self.0.put(w);
        self.1.put(w);
    }
    fn get(r: &mut Reader<'_>) -> Result<Self> {
        Ok((A::get(r)?, B::get(r)?))
    }
}

impl Coded for bool {
    fn put(&self, w: &mut Vec<u8>) {
        w.push(*self as u8);
    }
    fn get(r: &mut Reader<'_>) -> Result<Self> {
        match u8::get(r)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(r.bad("neither yes nor no")),
        }
    }
}
impl Coded for String {
    fn put(&self, w: &mut Vec<u8>) {
        (self.len() as u64).put(w);
        w.extend_from_slice(self.as_bytes());
    }
    fn get(r: &mut Reader<'_>) -> Result<Self> {
        let n = u64::get(r)?;
        let bytes = r.take(usize::try_from(n).unwrap_or(usize::MAX))?.to_vec();
        String::from_utf8(bytes).map_err(|_| r.bad("a text is not UTF-8"))
    }
}
impl<T: Coded> Coded for Vec<T> {
    fn put(&self, w: &mut Vec<u8>) {
        (self.len() as u64).put(w);
        self.iter().for_each(|x| x.put(w));
    }
    fn get(r: &mut Reader<'_>) -> Result<Self> {
        let n = u64::get(r)?;
        // Every element takes a byte at least, so no more is reserved than the file holds.
        if n > r.left.len() as u64 {
            return Err(r.bad("a list is longer than the file"));
        }
        (0..n).map(|i| T::get(r).map_err(|e| e.context(format_args!("[{i}]")))).collect()
    }
}
impl<T: Coded> Coded for Option<T> {
    fn put(&self, w: &mut Vec<u8>) {
        self.is_some().put(w);
        if let Some(x) = self {
            x.put(w);
        }
    }
    fn get(r: &mut Reader<'_>) -> Result<Self> {
        Ok(if bool::get(r)? { Some(T::get(r)?) } else { None })
    }
}
impl Coded for Dims {
    fn put(&self, w: &mut Vec<u8>) {
        self.to_vec().put(w);
    }
    fn get(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Dims::from_vec(Vec::get(r)?))
    }
}
impl Coded for DType {
    fn put(&self, w: &mut Vec<u8>) {
        w.push(*self as u8);
    }
    fn get(r: &mut Reader<'_>) -> Result<Self> {
        DType::from_u8(u8::get(r)?).ok_or_else(|| r.bad("an unknown dtype"))
    }
}
impl Coded for Device {
    fn put(&self, w: &mut Vec<u8>) {
        self.kind.name().to_owned().put(w);
        self.index.put(w);
    }
    fn get(r: &mut Reader<'_>) -> Result<Self> {
        let name = String::get(r)?;
        let kind = DeviceType::from_name(&name).ok_or_else(|| r.bad(&format!("an unknown device {name:?}")))?;
        Ok(Device::new(kind, u16::get(r)?))
    }
}

/// A struct, field by field.
macro_rules! fields {
    ($($t:ident { $($f:ident),* })*) => {$(
        impl Coded for $t {
            fn put(&self, w: &mut Vec<u8>) {
                $(self.$f.put(w);)*
            }
            fn get(r: &mut Reader<'_>) -> Result<Self> {
                Ok($t { $($f: Coded::get(r).map_err(|e| e.context(concat!(".", stringify!($f))))?),* })
            }
        }
    )*};
}
fields! {
    Meta { dtype, device, sizes, strides }
    Arena { device, bytes }
    Buffer { device, bytes, home }
    Input { buffer, meta }
    Variable { name, buffer, meta }
    Output { operand }
    Register { name, device, bytes, slots }
    Task { name, stream, work, consumes, produces }
    Port { register, pieces }
    Instr { steps, ins, outs, origin }
    Step { op, args, ins, outs }
    Operand { buffer, offset, dtype, sizes, strides }
    NamedDim { name, min, max, step, start, read }
    Read { input, axis, factor, constant }
    Polynomial { terms, denominator }
    Term { factor, dims }
    Guard { asked, a, b, answer, place }
}

/// An enum: a tag, then the fields of the variant.
macro_rules! variants {
    ($t:ident { $($tag:literal => $v:ident $(($($p:ident),*))? $({$($f:ident),*})?),* $(,)? }) => {
        impl Coded for $t {
            fn put(&self, w: &mut Vec<u8>) {
                match self {
                    $($t::$v $(($($p),*))? $({$($f),*})? => {
                        w.push($tag);
                        $($($p.put(w);)*)?
                        $($($f.put(w);)*)?
                    })*
                }
            }
            fn get(r: &mut Reader<'_>) -> Result<Self> {
                Ok(match u8::get(r)? {
                    $($tag => {
                        $($(let $p = Coded::get(r)?;)*)?
                        $($(let $f = Coded::get(r)?;)*)?
                        $t::$v $(($($p),*))? $({$($f),*})?
                    })*
                    _ => return Err(r.bad(concat!("an unknown kind of ", stringify!($t)))),
                })
            }
        }
    };
}
variants!(Home { 0 => Arena { arena, offset }, 1 => Input(i), 2 => Variable(i), 3 => Output(i), 4 => Register { register, piece, offset } });
variants!(Work { 0 => HostIn, 1 => HostOut, 2 => Compute(p), 3 => Source { kind, config } });
variants!(Formula { 0 => Value(p), 1 => Quotient(c, p) });
variants!(Asked { 0 => Eq, 1 => Ne, 2 => Lt, 3 => Le, 4 => Gt, 5 => Ge, 6 => Mod, 7 => And, 8 => Or, 9 => Xor });
variants!(Ref { 0 => In(i), 1 => Out(i), 2 => Temp(i, d) });
variants!(PlanArg {
    0 => None, 1 => Bool(b), 2 => Int(i), 3 => Float(f), 4 => Complex(re, im), 5 => DType(d), 6 => Ints(v), 7 => Floats(v),
    8 => Len(n), 9 => Str(s), 10 => Device(d), 11 => Rng(s), 12 => RngAt(s, window),
});

/// The fields that plans of every version have.
macro_rules! plan {
    ($($f:ident),*) => {
        fn put_plan(p: &Plan, w: &mut Vec<u8>) {
            $(p.$f.put(w);)*
        }
        fn get_plan(r: &mut Reader<'_>) -> Result<Plan> {
            Ok(Plan {
                $($f: Coded::get(r).map_err(|e| e.context(concat!(".", stringify!($f))))?,)*
                dynamic: None,
            })
        }
    };
}
plan!(name, arenas, buffers, inputs, variables, outputs, registers, tasks, n_rng, input_names, output_names);

fn get_dynamic(r: &mut Reader<'_>, version: u32) -> Result<Dynamic> {
    let dims = Coded::get(r).map_err(|e| e.context(".dims"))?;
    let numbers = Coded::get(r).map_err(|e| e.context(".numbers"))?;
    let mut guards = Vec::new();
    if version > WITHOUT_GUARDS {
        guards = Coded::get(r).map_err(|e| e.context(".guards"))?;
    }
    Ok(Dynamic { dims, numbers, guards })
}

impl Plan {
    /// A plan is written as the oldest version that can say it, which older programs read.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut w = MAGIC.to_vec();
        let version = match &self.dynamic {
            None => OLDEST,
            Some(d) if d.guards.is_empty() => WITHOUT_GUARDS,
            Some(_) => VERSION,
        };
        version.put(&mut w);
        put_plan(self, &mut w);
        if let Some(dynamic) = &self.dynamic {
            dynamic.dims.put(&mut w);
            dynamic.numbers.put(&mut w);
            if version > WITHOUT_GUARDS {
                dynamic.guards.put(&mut w);
            }
        }
        w
    }

    /// Reads a plan and checks everything that can be checked without running it.
    pub fn from_bytes(bytes: &[u8]) -> Result<Plan> {
        let bad = |what: &str| Error::value(format!("plan: {what}"));
        let head = bytes.split_first_chunk().and_then(|(magic, rest)| Some((magic, rest.split_first_chunk()?)));
        let Some((MAGIC, (version, left))) = head else { return Err(bad("it does not begin as a plan does")) };
        let version = u32::from_le_bytes(*version);
        if !(OLDEST..=VERSION).contains(&version) {
            return Err(bad(&format!("version {version}; this program reads versions {OLDEST} to {VERSION}")));
        }
        let mut r = Reader { left, whole: bytes.len() };
        let mut plan = get_plan(&mut r).map_err(|e| e.context("plan"))?;
        if version > OLDEST {
            let dynamic = get_dynamic(&mut r, version).map_err(|e| e.context("plan.dynamic"))?;
            plan.dynamic = Some(std::sync::Arc::new(dynamic));
        }
        if !r.left.is_empty() {
            return Err(bad(&format!("{} bytes after its end", r.left.len())));
        }
        plan.check()?;
        Ok(plan)
    }
}
