//! Device types and devices. Device types are an open set: a provider names its own.

use crate::{Error, Result};
use std::fmt;
use std::sync::RwLock;

/// A kind of device. The three built-in ones have fixed numbers, a provider's own follow.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceType(pub u8);

static EXTRA: RwLock<Vec<&'static str>> = RwLock::new(Vec::new());
const BUILT_IN: [&str; 3] = ["cpu", "cuda", "meta"];

impl DeviceType {
    pub const CPU: DeviceType = DeviceType(0);
    pub const CUDA: DeviceType = DeviceType(1);
    pub const META: DeviceType = DeviceType(2);
    /// Highest number of device types: tables indexed by type have this length.
    pub const MAX: usize = 8;

    pub fn name(self) -> &'static str {
        if let Some(n) = BUILT_IN.get(self.0 as usize) {
            return n;
        }
        let extra = EXTRA.read().unwrap_or_else(|e| e.into_inner());
        extra.get(self.0 as usize - BUILT_IN.len()).copied().unwrap_or("unknown")
    }

    pub fn from_name(name: &str) -> Option<DeviceType> {
        if let Some(i) = BUILT_IN.iter().position(|n| *n == name) {
            return Some(DeviceType(i as u8));
        }
        let extra = EXTRA.read().unwrap_or_else(|e| e.into_inner());
        extra.iter().position(|n| *n == name).map(|i| DeviceType((i + BUILT_IN.len()) as u8))
    }

    /// The number of a device type by name, created on first use. Called by providers at start-up.
    pub fn register(name: &'static str) -> Result<DeviceType> {
        if let Some(t) = Self::from_name(name) {
            return Ok(t);
        }
        let mut extra = EXTRA.write().unwrap_or_else(|e| e.into_inner());
        let id = extra.len() + BUILT_IN.len();
        if id >= Self::MAX {
            return Err(Error::runtime(format!("device type {name:?}: at most {} device types", Self::MAX)));
        }
        extra.push(name);
        Ok(DeviceType(id as u8))
    }
}

impl fmt::Debug for DeviceType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One device: a type and its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Device {
    pub kind: DeviceType,
    pub index: u16,
}

impl Device {
    pub const CPU: Device = Device { kind: DeviceType::CPU, index: 0 };
    pub const META: Device = Device { kind: DeviceType::META, index: 0 };

    pub fn new(kind: DeviceType, index: u16) -> Device {
        Device { kind, index }
    }

    /// Parses "cpu", "cuda", "cuda:1", "meta".
    pub fn parse(text: &str) -> Result<Device> {
        let (name, index) = match text.split_once(':') {
            Some((n, i)) => (n, Some(i)),
            None => (text, None),
        };
        let bad = || Error::runtime(format!("Invalid device string: '{text}'"));
        let kind = DeviceType::from_name(name).ok_or_else(|| {
            Error::runtime(format!(
                "Expected one of cpu, cuda, meta or a registered device type at start of device string: {text}"
            ))
        })?;
        let index = match index {
            None => 0,
            Some(i) if !i.is_empty() && i.bytes().all(|b| b.is_ascii_digit()) && (i == "0" || !i.starts_with('0')) => {
                i.parse::<u16>().map_err(|_| bad())?
            }
            Some(_) => return Err(bad()),
        };
        Ok(Device { kind, index })
    }

    /// One word, for argument lists.
    #[inline]
    pub fn pack(self) -> u32 {
        ((self.kind.0 as u32) << 16) | self.index as u32
    }
    #[inline]
    pub fn unpack(v: u32) -> Device {
        Device { kind: DeviceType((v >> 16) as u8), index: v as u16 }
    }
    #[inline]
    pub fn is_cpu(self) -> bool {
        self.kind == DeviceType::CPU
    }
    #[inline]
    pub fn is_meta(self) -> bool {
        self.kind == DeviceType::META
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.kind == DeviceType::CPU || self.kind == DeviceType::META {
            f.write_str(self.kind.name())
        } else {
            write!(f, "{}:{}", self.kind.name(), self.index)
        }
    }
}
