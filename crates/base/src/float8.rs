//! The eight-bit floats: the numbers of their codes, and the rounding of a float to a code.
//!
//! Conversions only; nothing computes in these formats.

use crate::DType;

/// The codes of a format with a sign.
#[derive(Clone, Copy)]
struct Format {
    /// Bits of the mantissa.
    mantissa: u32,
    bias: i32,
    /// The code of the greatest finite number, and what greater ones become; both without a sign.
    most: u8,
    beyond: u8,
    /// True if there is one NaN, in the place of minus zero.
    one_nan: bool,
}

const E4M3FN: Format = Format { mantissa: 3, bias: 7, most: 0x7e, beyond: 0x7e, one_nan: false };
const E5M2: Format = Format { mantissa: 2, bias: 15, most: 0x7b, beyond: 0x7c, one_nan: false };
const E4M3FNUZ: Format = Format { mantissa: 3, bias: 8, most: 0x7f, beyond: 0, one_nan: true };
const E5M2FNUZ: Format = Format { mantissa: 2, bias: 16, most: 0x7f, beyond: 0, one_nan: true };

/// The code of an only NaN.
const MINUS_ZERO: u8 = 0x80;
const INFINITY: u32 = 0x7f80_0000;

impl Format {
    /// The nearest code, ties to the even one.
    const fn encode(self, v: f32) -> u8 {
        let bits = v.to_bits();
        let sign = (bits >> 24) as u8 & 0x80;
        let magnitude = bits & 0x7fff_ffff;
        if magnitude > INFINITY {
            return if self.one_nan { MINUS_ZERO } else { sign | 0x7f };
        }
        let code = if magnitude == INFINITY { u32::MAX } else { self.round(magnitude) };
        if code > self.most as u32 {
            return if self.one_nan { MINUS_ZERO } else { sign | self.beyond };
        }
        if self.one_nan && code == 0 { 0 } else { sign | code as u8 }
    }

    /// The code of a finite magnitude, as if there were codes without end.
    const fn round(self, magnitude: u32) -> u32 {
        let exponent = (magnitude >> 23) as i32;
        let hidden = if exponent > 0 { 1 << 23 } else { 0 };
        let mantissa = magnitude & 0x7f_ffff | hidden;
        // The exponent that the code would have; below one its mantissa has no hidden bit.
        let target = (if exponent > 0 { exponent } else { 1 }) - 127 + self.bias;
        let below = if target < 1 { 1 - target } else { 0 };
        let shift = 23 - self.mantissa + below as u32;
        if shift > 25 {
            return 0;
        }
        let (kept, rest, half) = (mantissa >> shift, mantissa & ((1 << shift) - 1), 1 << (shift - 1));
        let up = rest > half || (rest == half && kept & 1 == 1);
        let base = if target < 1 { 0 } else { ((target - 1) as u32) << self.mantissa };
        base + kept + up as u32
    }

    const fn decode(self, code: u8) -> f32 {
        let sign = ((code & 0x80) as u32) << 24;
        if self.one_nan && code == MINUS_ZERO {
            return f32::NAN;
        }
        let magnitude = code & 0x7f;
        if magnitude > self.most {
            let is_infinite = self.beyond > self.most && magnitude == self.beyond;
            return f32::from_bits(sign | if is_infinite { INFINITY } else { 0x7fc0_0000 });
        }
        let (exponent, mantissa) =
            ((magnitude >> self.mantissa) as i32, (magnitude as u32) & ((1 << self.mantissa) - 1));
        // Units of the last place, times their power of two.
        let (units, power) = if exponent == 0 {
            (mantissa, 1 - self.bias)
        } else {
            (mantissa | 1 << self.mantissa, exponent - self.bias)
        };
        let scale = f32::from_bits(((power - self.mantissa as i32 + 127) as u32) << 23);
        f32::from_bits(sign | (units as f32 * scale).to_bits())
    }
}

/// The nearest power of two of a magnitude (ties upwards, of the smallest numbers downwards). The format has no sign.
const fn encode_e8m0(v: f32) -> u8 {
    let magnitude = v.to_bits() & 0x7fff_ffff;
    let (exponent, mantissa) = ((magnitude >> 23) as u8, magnitude & 0x7f_ffff);
    const HALF: u32 = 1 << 22;
    let up = exponent < 0xff && (mantissa > HALF || (mantissa == HALF && exponent > 0));
    exponent + up as u8
}

const fn decode_e8m0(code: u8) -> f32 {
    match code {
        0xff => f32::NAN,
        0 => f32::from_bits(1 << 22),
        e => f32::from_bits((e as u32) << 23),
    }
}

const fn table(of: Option<Format>) -> [f32; 256] {
    let mut out = [0.0; 256];
    let mut code = 0;
    while code < 256 {
        out[code] = match of {
            Some(f) => f.decode(code as u8),
            None => decode_e8m0(code as u8),
        };
        code += 1;
    }
    out
}

macro_rules! formats {
    ($($(#[$doc:meta])* $name:ident: $table:ident = $format:expr, |$v:ident| $encode:expr;)*) => {$(
        static $table: [f32; 256] = table($format);
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(transparent)]
        pub struct $name(pub u8);
        impl $name {
            #[inline]
            pub fn to_f32(self) -> f32 {
                $table[self.0 as usize]
            }
            #[inline]
            pub fn from_f32($v: f32) -> $name {
                $name($encode)
            }
        }
    )*};
}
formats! {
    /// Four bits of exponent, no infinity; greater numbers become the greatest.
    F8E4M3FN: TABLE_E4M3FN = Some(E4M3FN), |v| E4M3FN.encode(v);
    /// The upper half of a `f16`.
    F8E5M2: TABLE_E5M2 = Some(E5M2), |v| E5M2.encode(v);
    /// Without infinities and minus zero; greater numbers become NaN.
    F8E4M3FNUZ: TABLE_E4M3FNUZ = Some(E4M3FNUZ), |v| E4M3FNUZ.encode(v);
    /// Without infinities and minus zero; greater numbers become NaN.
    F8E5M2FNUZ: TABLE_E5M2FNUZ = Some(E5M2FNUZ), |v| E5M2FNUZ.encode(v);
    /// Powers of two, and NaN.
    F8E8M0FNU: TABLE_E8M0FNU = None, |v| encode_e8m0(v);
}

/// The number of a code of a float8 dtype; NaN for other dtypes.
pub fn float8_to_f32(dtype: DType, code: u8) -> f32 {
    match dtype {
        DType::F8E4M3FN => F8E4M3FN(code).to_f32(),
        DType::F8E5M2 => F8E5M2(code).to_f32(),
        DType::F8E4M3FNUZ => F8E4M3FNUZ(code).to_f32(),
        DType::F8E5M2FNUZ => F8E5M2FNUZ(code).to_f32(),
        DType::F8E8M0FNU => F8E8M0FNU(code).to_f32(),
        _ => f32::NAN,
    }
}

/// The code of a number in a float8 dtype; zero for other dtypes.
pub fn f32_to_float8(dtype: DType, v: f32) -> u8 {
    match dtype {
        DType::F8E4M3FN => F8E4M3FN::from_f32(v).0,
        DType::F8E5M2 => F8E5M2::from_f32(v).0,
        DType::F8E4M3FNUZ => F8E4M3FNUZ::from_f32(v).0,
        DType::F8E5M2FNUZ => F8E5M2FNUZ::from_f32(v).0,
        DType::F8E8M0FNU => F8E8M0FNU::from_f32(v).0,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_comes_back() {
        for dtype in DType::ALL.into_iter().filter(|d| d.is_float8()) {
            for code in 0..=255u8 {
                let v = float8_to_f32(dtype, code);
                let back = f32_to_float8(dtype, v);
                assert!(
                    back == code || v.is_nan() && float8_to_f32(dtype, back).is_nan(),
                    "{dtype} {code:#x} {v} {back:#x}"
                );
            }
        }
    }

    #[test]
    fn beyond_the_greatest_each_has_its_way() {
        let of = |d, v| float8_to_f32(d, f32_to_float8(d, v));
        assert_eq!(of(DType::F8E4M3FN, 1e6), 448.0);
        assert_eq!(of(DType::F8E5M2, -1e6), f32::NEG_INFINITY);
        assert!(of(DType::F8E4M3FNUZ, 1e6).is_nan());
        assert_eq!(of(DType::F8E8M0FNU, -3.0), 4.0);
        assert_eq!(of(DType::F8E4M3FN, 2f32.powi(-10)), 0.0);
        assert_eq!(of(DType::F8E4M3FN, 1.5 * 2f32.powi(-9)), 2f32.powi(-8));
    }
}
