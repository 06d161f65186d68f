//! From templates to kernel texts: the prelude, the element types, the constants, the body.

use oneflow_base::{DType, Error, Result};
use oneflow_ep::cuda::Text;
use std::fmt::{Display, Write};

/// Dimensions a kernel walks, after merging.
pub const MAX_DIMS: usize = 12;

const PRELUDE: &str = include_str!("text/prelude.cu");
/// Sums that are rounded on their own.
pub const PLUS: &str = include_str!("text/plus.cu");
/// Several elements at once; the text defines V before it.
pub const PACK: &str = include_str!("text/pack.cu");

/// The C type of an element.
pub fn c_type(op: &str, dtype: DType) -> Result<&'static str> {
    Ok(match dtype {
        DType::Bool => "b8",
        DType::U8 => "u8",
        DType::I8 => "i8",
        DType::I16 => "i16",
        DType::I32 => "i32",
        DType::I64 => "i64",
        DType::F16 => "f16",
        DType::BF16 => "bf16",
        DType::F32 => "f32",
        DType::F64 => "f64",
        // Complex numbers, and dtypes of which only the bytes are moved: these come here as their carriers.
        _ => return Err(unsupported(op, dtype)),
    })
}

#[cold]
pub fn unsupported(op: &str, dtype: DType) -> Error {
    Error::not_implemented(format!("{op}: no CUDA kernel for dtype {dtype}"))
}

/// Only floats have a meaning here.
pub fn float(op: &str, dtype: DType) -> Result<DType> {
    if dtype.is_float() && !dtype.is_limited() { Ok(dtype) } else { Err(unsupported(op, dtype)) }
}

/// An unsigned integer dtype-like type of the same size, for kernels that only move elements.
pub fn bits_type(dtype: DType) -> &'static str {
    match dtype.size() {
        1 => "u8",
        2 => "unsigned short",
        4 => "u32",
        8 => "u64",
        _ => "struct { u64 low, high; }",
    }
}

/// A text in the making.
pub struct Builder {
    name: String,
    source: String,
    options: &'static [&'static str],
    shared: u32,
}

impl Builder {
    pub fn new(name: impl Into<String>) -> Builder {
        Builder {
            name: name.into(),
            source: format!("#define MAX_DIMS {MAX_DIMS}\n{PRELUDE}\n"),
            options: &[],
            shared: 0,
        }
    }

    /// `typedef` of an element type; the dtype becomes part of the name.
    pub fn dtype(mut self, alias: &str, dtype: DType) -> Result<Builder> {
        let c = c_type(&self.name, dtype)?;
        let _ = write!(self.name, " {dtype}");
        Ok(self.alias(alias, c))
    }

    pub fn alias(mut self, alias: &str, c: &str) -> Builder {
        let _ = writeln!(self.source, "typedef {c} {alias};");
        self
    }

    pub fn define(mut self, name: &str, value: impl Display) -> Builder {
        let _ = writeln!(self.source, "#define {name} {value}");
        self
    }

    /// As `define`, with the value part of the name.
    pub fn variant(mut self, name: &str, value: impl Display) -> Builder {
        let _ = write!(self.name, " {name}={value}");
        self.define(name, value)
    }

    /// A compute type's alias, and the functions of that type.
    pub fn compute(self, alias: &str, dtype: DType) -> Result<Builder> {
        let c = c_type(&self.name, dtype)?;
        let suffix = if dtype == DType::F64 { "" } else { "f" };
        let mut b = self.alias(alias, c);
        for (name, f) in
            [("EXP", "exp"), ("LN", "log"), ("SQRT", "sqrt"), ("ERF", "erf"), ("TANH", "tanh"), ("POW", "pow")]
        {
            b = b.define(name, format_args!("{f}{suffix}"));
        }
        let (lowest, highest) = match dtype {
            DType::F64 => ("__longlong_as_double(0xfff0000000000000ll)", "__longlong_as_double(0x7ff0000000000000ll)"),
            DType::I64 => ("(-9223372036854775807ll - 1)", "9223372036854775807ll"),
            _ => ("__int_as_float(0xff800000)", "__int_as_float(0x7f800000)"),
        };
        Ok(b.define("LOWEST", lowest).define("HIGHEST", highest))
    }

    pub fn options(mut self, options: &'static [&'static str]) -> Builder {
        self.options = options;
        self
    }

    /// The most dynamic shared memory of a launch, in bytes.
    pub fn shared(mut self, bytes: u32) -> Builder {
        self.shared = bytes;
        self
    }

    /// More text, in order.
    pub fn push(mut self, text: &str) -> Builder {
        self.source.push_str(text);
        self.source.push('\n');
        self
    }

    pub fn finish(self) -> Text {
        Text { name: self.name, source: self.source, options: self.options, shared: self.shared }
    }
}
